// SPDX-License-Identifier: Apache-2.0
// The safetensors reader: what the format says is read, and each way in which a file can lie about
// itself is refused by name, before anything large is allocated.
#include "runtime/io/Safetensors.h"
#include "test/unit/support/TemporaryFolder.h"

#include <cstring>
#include <gmock/gmock.h>
#include <sys/resource.h>

using namespace ftlm;
using testing::AllOf;
using testing::HasSubstr;

namespace {

/// A file with this header and body; `length` is what it says the header's length is.
std::string fileOf(const std::string &header, const std::string &body = "",
                   std::optional<uint64_t> length = {}) {
  return raw<uint64_t>({length.value_or(header.size())}) + header + body;
}

std::string refusal(const std::string &file) {
  return errorOf([&] { SafetensorsFile::fromBytes(bytesOfText(file), "w.safetensors"); });
}

std::string refusalOf(const std::string &header, const std::string &body = "") {
  std::string what = refusal(fileOf(header, body));
  EXPECT_THAT(what, testing::StartsWith("w.safetensors"));
  return what;
}

long peakKilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST(Safetensors, readsWhatTheFormatSays) {
  std::string file = fileOf(R"({"__metadata__": {"format": "pt"},
    "b": {"dtype": "F32", "shape": [2, 1], "data_offsets": [4, 12]},
    "a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
    "empty": {"dtype": "F16", "shape": [0, 7], "data_offsets": [12, 12]},
    "scalar": {"dtype": "I32", "shape": [], "data_offsets": [12, 16]}}   )",
                            "wxyz" + raw<float>({1.5f, -2.0f}) + raw<int32_t>({7}));
  SafetensorsFile read = SafetensorsFile::fromBytes(bytesOfText(file), "w");
  ASSERT_EQ(read.tensors().size(), 4u);
  EXPECT_EQ(read.tensors()[0].name, "a"); // by name
  EXPECT_EQ(read.metadata().at("format"), "pt");
  const TensorView *b = read.find("b");
  ASSERT_TRUE(b);
  EXPECT_EQ(b->shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(b->dtype, plan::DType::F32);
  float values[2];
  std::memcpy(values, b->data.data(), b->data.size());
  EXPECT_EQ(values[0], 1.5f);
  EXPECT_EQ(values[1], -2.0f);
  EXPECT_EQ(read.find("scalar")->data.size(), 4u);
  EXPECT_TRUE(read.find("empty")->data.empty());
  EXPECT_EQ(read.find("c"), nullptr);
}

struct Dtype {
  const char *name;
  unsigned bits;
};
class EveryDtype : public testing::TestWithParam<Dtype> {};

TEST_P(EveryDtype, hasItsSize) {
  auto [name, bits] = GetParam();
  std::string entry = std::string(R"({"t": {"dtype": ")") + name +
                      R"(", "shape": [8], "data_offsets": [0, )" + std::to_string(bits) + "]}}";
  std::string file = fileOf(entry, std::string(bits, 'x'));
  SafetensorsFile read = SafetensorsFile::fromBytes(bytesOfText(file), "w");
  EXPECT_EQ(read.tensors()[0].dtypeName(), name);
  EXPECT_EQ(read.tensors()[0].data.size(), bits);
  file.pop_back();
  EXPECT_THAT(refusal(file), HasSubstr("tensor 't' lies at bytes"));
}

// Names and sizes of the format's documentation.
INSTANTIATE_TEST_SUITE_P(
    Format, EveryDtype,
    testing::Values(Dtype{"BOOL", 8}, Dtype{"U8", 8}, Dtype{"I8", 8}, Dtype{"F8_E5M2", 8},
                    Dtype{"F8_E4M3", 8}, Dtype{"F8_E8M0", 8}, Dtype{"F8_E4M3FNUZ", 8},
                    Dtype{"F8_E5M2FNUZ", 8}, Dtype{"F6_E2M3", 6}, Dtype{"F6_E3M2", 6},
                    Dtype{"F4", 4}, Dtype{"I16", 16}, Dtype{"U16", 16}, Dtype{"F16", 16},
                    Dtype{"BF16", 16}, Dtype{"I32", 32}, Dtype{"U32", 32}, Dtype{"F32", 32},
                    Dtype{"I64", 64}, Dtype{"U64", 64}, Dtype{"F64", 64}, Dtype{"C64", 64}),
    [](auto &dtype) { return std::string(dtype.param.name); });

TEST(Safetensors, headerWhoseLengthLooksLikeAPickleIsRead) {
  // 640 is 0x280: the file begins with the two bytes of a pickle of protocol 2.
  for (size_t length : {640, 896, 1152}) {
    std::string header = "{}";
    header.resize(length, ' ');
    EXPECT_EQ(refusal(fileOf(header)), "") << length;
  }
}

TEST(Safetensors, filesOfOtherKindsAreCalledByTheirKind) {
  EXPECT_THAT(refusal("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 5\n"),
              HasSubstr("git-lfs pointer"));
  for (char protocol : {2, 3, 4, 5})
    EXPECT_THAT(refusal(std::string("\x80") + protocol + "}q\x01(X\x03rest"), HasSubstr("pickle"));
  EXPECT_THAT(refusal("PK\x03\x04" + std::string(60, 'z')), HasSubstr("zip"));
  for (const char *page : {"<!DOCTYPE html><html>", "<!doctype html>", "<HTML lang=en>",
                           "\n  <html><head></head></html>"})
    EXPECT_THAT(refusal(page), HasSubstr("HTML page")) << page;
  for (const char *shorter : {"", "x", "1234567"})
    EXPECT_THAT(refusal(shorter), HasSubstr("too short")) << shorter;
}

TEST(Safetensors, headerLongerThanTheFile) {
  EXPECT_THAT(refusal(fileOf("{}", "", 3)), AllOf(HasSubstr("3 bytes"), HasSubstr("only 2")));
  EXPECT_THAT(refusal(fileOf("{}", "", ~uint64_t(0))), HasSubstr("at most"));
  EXPECT_THAT(refusal(fileOf("{}", "", ~uint64_t(0) - 7)), HasSubstr("at most"));
}

TEST(Safetensors, headerThatIsNoObject) {
  for (const char *header :
       {"", "[]", "3", "{", "{]", "nul", "{}{}", "{} x", "\"a\"", "null", "\xff{}"})
    EXPECT_THAT(refusalOf(header), HasSubstr("header")) << header;
}

TEST(Safetensors, entryThatIsNoTensor) {
  for (const char *entry :
       {"3", "null", "[]", "\"F32\"", "{}", R"({"dtype": "F32"})",
        R"({"dtype": "F32", "shape": []})", R"({"dtype": 3, "shape": [], "data_offsets": [0, 0]})",
        R"({"dtype": "F33", "shape": [], "data_offsets": [0, 0]})",
        R"({"dtype": "F32", "shape": 3, "data_offsets": [0, 0]})",
        R"({"dtype": "F32", "shape": [-1], "data_offsets": [0, 0]})",
        R"({"dtype": "F32", "shape": [1.5], "data_offsets": [0, 0]})",
        R"({"dtype": "F32", "shape": [[1]], "data_offsets": [0, 4]})",
        R"({"dtype": "F32", "shape": ["1"], "data_offsets": [0, 4]})",
        R"({"dtype": "F32", "shape": [], "data_offsets": [0]})",
        R"({"dtype": "F32", "shape": [], "data_offsets": [0, 4, 4]})",
        R"({"dtype": "F32", "shape": [], "data_offsets": [0, 4.0]})",
        R"({"dtype": "F32", "shape": [], "data_offsets": [0, 4], "more": 1})",
        R"({"dtype": "F32", "dtype": "F32", "shape": [], "data_offsets": [0, 4]})"})
    EXPECT_THAT(refusalOf(std::string("{\"t\": ") + entry + "}", "1234"), HasSubstr("'t'"))
        << entry;
}

std::string tensorEntry(const std::string &name, const std::string &shape, const std::string &begin,
                        const std::string &end) {
  return "\"" + name + "\": {\"dtype\": \"F32\", \"shape\": [" + shape + "], \"data_offsets\": [" +
         begin + ", " + end + "]}";
}

TEST(Safetensors, offsetsThatOverlapOrLeaveAGap) {
  auto two = [](const char *begin, const char *end, size_t bytes) {
    return refusalOf("{" + tensorEntry("a", "2", "0", "8") + ", " +
                         tensorEntry("b", "1", begin, end) + "}",
                     std::string(bytes, 'x'));
  };
  EXPECT_EQ(refusal(fileOf("{" + tensorEntry("a", "2", "0", "8") + ", " +
                               tensorEntry("b", "1", "8", "12") + "}",
                           std::string(12, 'x'))),
            "");
  EXPECT_THAT(two("4", "8", 8), AllOf(HasSubstr("overlap"), HasSubstr("'b'")));
  EXPECT_THAT(two("12", "16", 16), AllOf(HasSubstr("gap"), HasSubstr("'b'")));
  EXPECT_THAT(two("8", "12", 11), HasSubstr("'b' lies at bytes 8 to 12"));
  EXPECT_THAT(two("8", "12", 13), HasSubstr("1 bytes after"));
  EXPECT_THAT(two("12", "8", 12), HasSubstr("'b' lies at bytes 12 to 8"));
  EXPECT_THAT(two("8", "18446744073709551615", 12), HasSubstr("'b' lies at bytes 8"));
  EXPECT_THAT(two("8", "18446744073709551616", 12), HasSubstr("'b'")); // 2^64
}

TEST(Safetensors, shapesWhoseProductOverflows) {
  for (const char *shape :
       {"4294967296, 4294967296", "9223372036854775807, 2", "18446744073709551615",
        "65536, 65536, 65536, 65536", "0, 18446744073709551615", "18446744073709551616",
        "4611686018427387905"}) // * 4 bytes = 4 modulo 2^64
    EXPECT_THAT(refusalOf("{" + tensorEntry("t", shape, "0", "4") + "}", "1234"), HasSubstr("'t'"))
        << shape;
  EXPECT_THAT(refusalOf("{" + tensorEntry("t", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "0", "4") + "}",
                        "1234"),
              HasSubstr("dimensions"));
}

TEST(Safetensors, namesGivenTwice) {
  EXPECT_THAT(refusalOf("{" + tensorEntry("t", "1", "0", "4") + ", " +
                            tensorEntry("t", "1", "0", "4") + "}",
                        "1234"),
              HasSubstr("'t' twice"));
  EXPECT_THAT(refusalOf(R"({"__metadata__": {"a": "1", "a": "2"}})"), HasSubstr("'a' twice"));
  EXPECT_THAT(refusalOf(R"({"__metadata__": {}, "__metadata__": {}})"), HasSubstr("twice"));
  EXPECT_THAT(refusalOf(R"({"__metadata__": {"a": {}}})"), HasSubstr("metadata"));
}

TEST(Safetensors, hundredMegabytesOfJsonCostNoMemory) {
  constexpr size_t size = 100'000'000;
  long before = 0;
  for (const std::string &unit : {std::string("["), std::string("{\"a\":"), std::string("[],"),
                                  std::string("{\"t\":{\"shape\":[") + "1,"}) {
    std::string file = raw<uint64_t>({size});
    file.reserve(size + 8);
    while (file.size() < size + 8)
      file += unit;
    file.resize(size + 8);
    before = std::max(before, peakKilobytes());
    EXPECT_NE(refusal(file), "") << unit;
    EXPECT_LT(peakKilobytes() - before, 64 * 1024) << unit;
  }
  EXPECT_THAT(refusal(raw<uint64_t>({size + 1}) + std::string(size + 1, '{')),
              HasSubstr("at most 100000000"));
}

TEST(Safetensors, bytesBeyondTwoGibibytes) {
  // A sparse file of 5 GiB: offsets need 64 bits.
  TemporaryFolder folder;
  std::filesystem::path path = folder / "large.safetensors";
  constexpr uint64_t large = uint64_t(5) << 30;
  std::string header =
      R"({"a": {"dtype": "U8", "shape": [5368709120], "data_offsets": [0, 5368709120]},
    "b": {"dtype": "I32", "shape": [1], "data_offsets": [5368709120, 5368709124]}})";
  {
    std::ofstream file(path, std::ios::binary);
    file << raw<uint64_t>({header.size()}) << header;
    file.seekp(static_cast<std::streamoff>(large), std::ios::cur);
    file << raw<int32_t>({123456});
    ASSERT_TRUE(file.good()) << "the file system takes no sparse file of 5 GiB";
  }
  SafetensorsFile read = SafetensorsFile::open(path);
  EXPECT_EQ(read.find("a")->data.size(), large);
  int32_t value = 0;
  std::memcpy(&value, read.find("b")->data.data(), 4);
  EXPECT_EQ(value, 123456);
}

TEST(Safetensors, whatIsWrittenIsReadAgain) {
  TemporaryFolder folder;
  std::vector<float> b = {1, 2, 3, 4, 5, 6};
  std::vector<int32_t> a = {-1};
  writeSafetensors(folder / "f",
                   {{"b", plan::DType::F32, {2, 3}, std::as_bytes(std::span(std::as_const(b)))},
                    {"a", plan::DType::I32, {1}, std::as_bytes(std::span(std::as_const(a)))}},
                   {{"format", "pt"}});
  std::string bytes = bytesIn(folder / "f");
  EXPECT_EQ(*reinterpret_cast<const uint64_t *>(bytes.data()) % 8, 0u);
  SafetensorsFile read = SafetensorsFile::open(folder / "f");
  EXPECT_EQ(std::memcmp(read.find("b")->data.data(), b.data(), 24), 0);
  EXPECT_EQ(std::memcmp(read.find("a")->data.data(), a.data(), 4), 0);
  EXPECT_EQ(read.metadata().at("format"), "pt");
  EXPECT_FALSE(std::filesystem::exists(folder / "f.tmp"));
}

} // namespace
