# SPDX-License-Identifier: Apache-2.0
# clang-tidy over the sources that changed, or over all. Needs common.sh, and a configured build in build/.

# changed_sources: the sources that differ from where this branch left main, and those that a changed header concerns.
changed_sources() {
  local base file
  base=$(git -C "$root" merge-base HEAD main 2>/dev/null || git -C "$root" rev-parse HEAD)
  # On main itself: what its last commit changed.
  [ "$base" = "$(git -C "$root" rev-parse HEAD)" ] && base=$(git -C "$root" rev-parse -q --verify HEAD~1 || echo "$base")
  {
    git -C "$root" diff --name-only --diff-filter=d "$base" -- '*.cpp' '*.h'
    git -C "$root" ls-files --others --exclude-standard -- '*.cpp' '*.h'
  } | while read -r file; do
    # A header is checked by way of the source that is named after it.
    file=${file%.h}
    file=${file%.cpp}.cpp
    [ -f "$root/$file" ] && echo "$file"
  done | sort -u
}

# clang_tidy changed|all: fails on any finding; .clang-tidy says what is looked for.
clang_tidy() {
  local files database=$root/build/compile_commands.json known=()
  if [ "$1" = all ]; then mapfile -t files < <(git -C "$root" ls-files '*.cpp'); else mapfile -t files < <(changed_sources); fi
  for file in "${files[@]}"; do
    # Sources that this build does not compile (a benchmark, a plugin) have no command to parse them with.
    grep -qF "\"$root/$file\"" "$database" && known+=("$file")
  done
  echo "clang-tidy: ${#known[@]} files ($1)"
  [ ${#known[@]} -eq 0 ] && return 0
  # OpenMP's header is the compiler's own.
  (cd "$root" && printf '%s\0' "${known[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy-22 -p build --quiet \
    --extra-arg=-idirafter"$(g++ -print-file-name=include)" 2>&1 | sed -E '/^[0-9]+ warnings? (generated|treated as errors)\.?$/d'
    exit "${PIPESTATUS[1]}")
}
