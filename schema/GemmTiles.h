// SPDX-License-Identifier: Apache-2.0
// Into which tiles a matrix product is cut: the compiler writes them into the plan, the runtime
// gives whole tiles to threads. The choice depends on the shape alone, so that the bits do not
// depend on the number of threads. docs/performance.md has the measurements behind the numbers.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace ftlm {

struct GemmTile {
  int64_t m, n;
};

/// Tiles of c[m, n], with a sum over k, that 2, 4 or 8 threads share evenly and that are still
/// large: a product copies its operands into panels, which costs some 20 / m + 20 / n of a tile's
/// time. None is so small that handing it to a thread shows (4 MFLOP take some 20 microseconds),
/// nor so large that waiting for the last one does.
inline constexpr GemmTile gemmTile(int64_t m, int64_t n, int64_t k) {
  // Near-equal pieces, in whole registers of oneDNN's innermost loops.
  auto piece = [](int64_t size, int64_t pieces, int64_t multiple) {
    return ((size + pieces - 1) / pieces + multiple - 1) / multiple * multiple;
  };
  constexpr int64_t least = 128, most = int64_t{2048} * 1024;
  constexpr double leastWork = 4e6;
  GemmTile best{m, n};
  double bestCost = 1e30;
  for (int64_t rows = 1; rows == 1 || piece(m, rows, 8) >= least; ++rows)
    for (int64_t columns = 1; columns == 1 || piece(n, columns, 16) >= least; ++columns) {
      GemmTile tile{piece(m, rows, 8), piece(n, columns, 16)};
      int64_t tiles = (m + tile.m - 1) / tile.m * ((n + tile.n - 1) / tile.n);
      double tileM = static_cast<double>(tile.m), tileN = static_cast<double>(tile.n);
      double work = 2 * tileM * tileN * static_cast<double>(k);
      if (tiles > 1 && work < leastWork)
        break;
      if (tile.m * tile.n > most)
        continue;
      double time = 0; // against evenly shared work, summed over the threads
      for (int64_t threads : {2, 4, 8}) {
        int64_t rounds = (tiles + threads - 1) / threads;
        time += static_cast<double>(rounds * threads) / static_cast<double>(tiles);
      }
      double cost = time * (1 + 20 / tileM + 20 / tileN);
      if (cost < bestCost)
        best = tile, bestCost = cost;
    }
  return best;
}

} // namespace ftlm
