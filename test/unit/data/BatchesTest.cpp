// SPDX-License-Identifier: Apache-2.0
// What the steps of a run hold. The corpus is the numbers 0, 1, 2, ..., so that a target names its
// own place: what is learnt, how often and with which weight can be counted.
#include "runtime/data/Batches.h"
#include "test/unit/support/TemporaryFolder.h"

#include <gmock/gmock.h>
#include <map>
#include <numeric>

using namespace ftlm;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

class Data : public testing::Test {
protected:
  /// Options for the corpus 0 .. tokens - 1.
  DataOptions options(int64_t tokens, int64_t time, int64_t batch, int64_t microBatch) {
    std::vector<uint16_t> ids(static_cast<size_t>(tokens));
    std::iota(ids.begin(), ids.end(), uint16_t(0));
    DataOptions o;
    o.files = {put(folder / "ids.bin", raw(ids))};
    o.time = time;
    o.batch = batch;
    o.microBatch = microBatch;
    o.vocabulary = 65536;
    o.seed = 11;
    return o;
  }
  DataOptions lines(const std::string &text, int64_t time, int64_t batch, int64_t microBatch) {
    DataOptions o;
    o.files = {put(folder / "lines.jsonl", text)};
    o.time = time;
    o.batch = batch;
    o.microBatch = microBatch;
    o.vocabulary = 256;
    return o;
  }
  std::string refusal(const DataOptions &o) {
    return errorOf([&] { BatchSource source(o); });
  }
  TemporaryFolder folder;
};

/// The targets that count in a step, in order, and the sum of their weights.
struct Counted {
  std::vector<int32_t> targets;
  double weight = 0;
};
Counted count(const StepData &data) {
  Counted result;
  for (const MicroBatch &micro : data.microBatches)
    for (size_t i = 0; i < micro.weights.size(); ++i)
      if (micro.weights[i] != 0) {
        result.targets.push_back(micro.targets[i]);
        result.weight += static_cast<double>(micro.weights[i]);
        EXPECT_EQ(micro.tokens[i], micro.targets[i] - 1) << "the input is the token before";
      }
  return result;
}

/// The numbers of the windows of the next steps.
std::vector<int32_t> windows(BatchSource &source, int64_t steps, int64_t time) {
  std::vector<int32_t> result;
  for (int64_t s = 0; s < steps; ++s)
    for (const MicroBatch &micro : source.next().microBatches)
      for (size_t row = 0; row < micro.examples.size(); ++row)
        if (micro.weights[row * static_cast<size_t>(time)] != 0)
          result.push_back(micro.tokens[row * static_cast<size_t>(time)] /
                           static_cast<int32_t>(time));
  return result;
}

TEST_F(Data, everyTargetIsLearntOnceAnEpoch) {
  // Exact windows, a short last window, a short last batch, batches that micro-batches do not
  // divide.
  for (int64_t tokens : {33, 34, 61, 64, 65, 257})
    for (auto [batch, microBatch] :
         {std::pair(1, 1), std::pair(3, 2), std::pair(4, 4), std::pair(5, 2)}) {
      BatchSource source(options(tokens, 8, batch, microBatch));
      std::map<int32_t, int> seen;
      for (int64_t epoch = 0; epoch < 2; ++epoch)
        for (int64_t s = 0; s < source.stepsPerEpoch(); ++s) {
          StepData data = source.next();
          EXPECT_EQ(data.epoch, epoch);
          Counted counted = count(data);
          EXPECT_EQ(static_cast<int64_t>(counted.targets.size()), data.tokens);
          EXPECT_NEAR(counted.weight, 1, 1e-5);
          for (int32_t target : counted.targets)
            ++seen[target];
        }
      EXPECT_EQ(seen.size(), static_cast<size_t>(tokens - 1)) << tokens << " " << batch;
      for (auto [target, times] : seen)
        EXPECT_EQ(times, 2) << target << " of " << tokens;
    }
}

TEST_F(Data, allTargetsOfAStepHaveTheSameWeight) {
  // 5 samples in micro-batches of 2: the last one is half empty, and the objective is that of one
  // batch of 5. The last window has 3 targets, not 8.
  BatchSource source(options(4 * 8 + 3 + 1, 8, 5, 2));
  StepData data = source.next();
  ASSERT_EQ(data.microBatches.size(), 3u);
  EXPECT_EQ(data.tokens, 35);
  size_t counted = 0;
  for (const MicroBatch &micro : data.microBatches) {
    EXPECT_EQ(micro.weights.size(), 16u);
    for (float weight : micro.weights)
      if (weight != 0) {
        EXPECT_EQ(weight, 1.0f / 35);
        ++counted;
      }
  }
  EXPECT_EQ(counted, 35u);
  EXPECT_EQ(data.microBatches[2].examples, (std::vector<int32_t>{4, 5}));
  for (size_t i = 8; i < 16; ++i)
    EXPECT_EQ(data.microBatches[2].weights[i], 0.0f);
}

TEST_F(Data, accumulationDoesNotChangeTheWeights) {
  BatchSource whole(options(100, 8, 5, 5)), parts(options(100, 8, 5, 1));
  for (int i = 0; i < 6; ++i) {
    StepData left = whole.next(), right = parts.next();
    std::vector<float> weights;
    std::vector<int32_t> targets;
    for (const MicroBatch &micro : right.microBatches) {
      weights.insert(weights.end(), micro.weights.begin(), micro.weights.end());
      targets.insert(targets.end(), micro.targets.begin(), micro.targets.end());
    }
    EXPECT_EQ(left.microBatches[0].weights, weights);
    EXPECT_EQ(left.microBatches[0].targets, targets);
  }
}

TEST_F(Data, orderIsAFunctionOfSeedAndEpoch) {
  DataOptions o = options(8 * 20 + 1, 8, 4, 4);
  BatchSource source(o), again(o);
  std::vector<int32_t> first = windows(source, 5, 8), second = windows(source, 5, 8);
  EXPECT_NE(first, second);
  EXPECT_EQ(windows(again, 5, 8), first);
  again.seek(5); // the second epoch, without the first
  EXPECT_EQ(windows(again, 5, 8), second);
  o.seed = 12;
  BatchSource other(o);
  EXPECT_NE(windows(other, 5, 8), first);
  std::vector<int32_t> all(20), sorted = second;
  std::iota(all.begin(), all.end(), 0);
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, all);
  o.shuffle = false;
  BatchSource straight(o);
  EXPECT_EQ(windows(straight, 5, 8), all);
}

TEST_F(Data, everyOrderIsAboutAsLikely) {
  // 3 windows, 6 orders, 600 seeds: each comes up 100 times, give or take (5 standard deviations).
  std::map<std::vector<int32_t>, int> orders;
  DataOptions o = options(25, 8, 3, 3);
  o.workers = 0;
  for (o.seed = 0; o.seed < 600; ++o.seed) {
    BatchSource source(o);
    ++orders[windows(source, 1, 8)];
  }
  EXPECT_EQ(orders.size(), 6u);
  for (auto &[order, times] : orders)
    EXPECT_NEAR(times, 100, 46);
}

TEST_F(Data, tenStepsAreFourAndSixAcrossAnEpochEdge) {
  DataOptions o = options(8 * 20 + 1, 8, 6, 3); // 4 steps an epoch, the last one short
  BatchSource whole(o);
  std::vector<int32_t> ten = windows(whole, 10, 8);
  for (int64_t stop = 0; stop <= 10; ++stop) {
    BatchSource before(o), after(o);
    std::vector<int32_t> parts = windows(before, stop, 8);
    after.seek(stop);
    std::vector<int32_t> rest = windows(after, 10 - stop, 8);
    parts.insert(parts.end(), rest.begin(), rest.end());
    EXPECT_EQ(parts, ten) << stop;
  }
}

TEST_F(Data, workersChangeNothing) {
  DataOptions o = options(500, 8, 3, 2);
  o.workers = 0;
  BatchSource alone(o);
  std::vector<int32_t> expected = windows(alone, 60, 8);
  for (int workers : {1, 3})
    for (int prefetch : {1, 5}) {
      o.workers = workers;
      o.prefetch = prefetch;
      BatchSource source(o);
      windows(source, 3, 8);
      source.seek(0);
      EXPECT_EQ(windows(source, 60, 8), expected);
    }
}

TEST_F(Data, windowsCountBeyondTwoToThe31) {
  constexpr int64_t tokens = (int64_t(1) << 33) + 5;
  Windows text{tokens, 1024};
  EXPECT_EQ(text.count(), (int64_t(1) << 23) + 1);
  EXPECT_EQ(text.begin(text.count() - 1), int64_t(1) << 33);
  EXPECT_EQ(text.targets(text.count() - 1), 4);
  EXPECT_EQ(text.targets(text.count() - 2), 1024);
  int64_t targets = 0;
  for (int64_t i = 0; i < text.count(); ++i)
    targets += text.targets(i);
  EXPECT_EQ(targets, tokens - 1);
}

TEST_F(Data, corpusShorterThanAWindow) {
  EXPECT_THAT(refusal(options(8, 8, 1, 1)),
              AllOf(HasSubstr("ids.bin"), HasSubstr("8 tokens"), HasSubstr("needs 9")));
  EXPECT_EQ(refusal(options(9, 8, 1, 1)), "");
}

TEST_F(Data, fingerprintIsThatOfTheContentsAlone) {
  BatchSource source(options(100, 8, 4, 2));
  DataOptions other = options(100, 16, 6, 3);
  other.seed = 99;
  other.shuffle = false;
  EXPECT_EQ(BatchSource(other).fingerprint(), source.fingerprint());
  EXPECT_NE(BatchSource(options(101, 8, 4, 2)).fingerprint(), source.fingerprint());
}

TEST_F(Data, onlyCompletionsHaveWeight) {
  DataOptions o = lines(R"({"prompt": "abc", "completion": "de"}
{"prompt": "", "completion": "fgh"})",
                        6, 2, 2);
  o.shuffle = false;
  BatchSource source(o);
  EXPECT_EQ(source.samples(), 2);
  StepData data = source.next();
  EXPECT_EQ(data.tokens, 4); // d, e; g, h: the first token has nothing before it
  const MicroBatch &micro = data.microBatches[0];
  EXPECT_THAT(micro.tokens, ElementsAre('a', 'b', 'c', 'd', 0, 0, 'f', 'g', 0, 0, 0, 0));
  EXPECT_THAT(micro.targets, ElementsAre('b', 'c', 'd', 'e', 0, 0, 'g', 'h', 0, 0, 0, 0));
  EXPECT_THAT(micro.weights, ElementsAre(0, 0, .25f, .25f, 0, 0, .25f, .25f, 0, 0, 0, 0));
}

TEST_F(Data, stepWithoutTargetsHasNoWeightAndNoNumberThatIsNone) {
  DataOptions o = lines(R"({"prompt": "abc", "completion": ""}
{"prompt": "abc", "completion": "d"})",
                        6, 1, 1);
  o.shuffle = false;
  BatchSource source(o);
  StepData masked = source.next(), counted = source.next();
  EXPECT_EQ(masked.tokens, 0);
  EXPECT_THAT(masked.microBatches[0].weights, testing::Each(0.0f));
  EXPECT_EQ(counted.tokens, 1);
  EXPECT_EQ(counted.microBatches[0].weights[2], 1.0f);
}

TEST_F(Data, dataWithoutAnyTargetIsRefused) {
  EXPECT_THAT(refusal(lines("{\"prompt\": \"abc\", \"completion\": \"\"}\n", 6, 1, 1)),
              AllOf(HasSubstr("lines.jsonl"), HasSubstr("no target")));
}

TEST_F(Data, linesThatAreTooLong) {
  std::string text = "{\"prompt\": \"a\", \"completion\": \"bcd\"}\n"
                     "{\"prompt\": \"abc\", \"completion\": \"defg\"}\n";
  EXPECT_EQ(refusal(lines(text, 6, 1, 1)), ""); // 7 tokens: 6 inputs, 6 targets
  DataOptions o = lines(text, 5, 1, 1);
  EXPECT_THAT(refusal(o),
              AllOf(HasSubstr("lines.jsonl:2"), HasSubstr("7 tokens"), HasSubstr("holds 6")));
  o.shuffle = false;
  o.overlong = Overlong::Cut;
  BatchSource cut(o);
  EXPECT_EQ(cut.samples(), 2);
  EXPECT_THAT(cut.notes(), ElementsAre(AllOf(HasSubstr("1 of 2 lines"), HasSubstr("cut"))));
  cut.next();
  EXPECT_THAT(cut.next().microBatches[0].targets, ElementsAre('b', 'c', 'd', 'e', 'f'));
  o.overlong = Overlong::Drop;
  BatchSource dropped(o);
  EXPECT_EQ(dropped.samples(), 1);
  EXPECT_THAT(dropped.notes(), ElementsAre(AllOf(HasSubstr("1 of 2 lines"), HasSubstr("dropped"))));
}

} // namespace
