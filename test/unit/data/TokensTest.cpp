// SPDX-License-Identifier: Apache-2.0
// The readers of token files: what each format's documentation says is read, and what contradicts
// itself or the vocabulary is refused with its place.
#include "runtime/data/Tokens.h"
#include "test/unit/support/TemporaryFolder.h"

#include <gmock/gmock.h>

using namespace ftlm;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

/// A .npy file as numpy.lib.format describes it, version 1.
std::string npy(const std::string &dtype, const std::string &shape, const std::string &data,
                char version = 1) {
  std::string header =
      "{'descr': '" + dtype + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize((header.size() + 10) / 64 * 64 + 53, ' ');
  header += '\n';
  std::string length = version == 1 ? raw<uint16_t>({static_cast<uint16_t>(header.size())})
                                    : raw<uint32_t>({static_cast<uint32_t>(header.size())});
  return std::string("\x93NUMPY") + version + '\0' + length + header + data;
}

std::string llmc(int32_t magic, int32_t version, int32_t count, const std::string &data) {
  std::vector<int32_t> head(256, 0);
  head[0] = magic;
  head[1] = version;
  head[2] = count;
  return raw(head) + data;
}

class Tokens : public testing::Test {
protected:
  TokenStream read(const std::string &name, const std::string &bytes, int64_t vocabulary = 70000) {
    std::vector<std::filesystem::path> files = {put(folder / name, bytes)};
    return readTokens(files, vocabulary);
  }
  std::string refusal(const std::string &name, const std::string &bytes,
                      int64_t vocabulary = 70000) {
    return errorOf([&] { read(name, bytes, vocabulary); });
  }
  TemporaryFolder folder;
};

TEST_F(Tokens, numpyArraysOfEachDtype) {
  EXPECT_THAT(read("a.npy", npy("<u2", "(3,)", raw<uint16_t>({1, 65535, 2}))).tokens,
              ElementsAre(1, 65535, 2));
  EXPECT_THAT(read("a.npy", npy("<u4", "(2,)", raw<uint32_t>({69999, 0}))).tokens,
              ElementsAre(69999, 0));
  EXPECT_THAT(read("a.npy", npy("<i4", "(2,)", raw<int32_t>({69999, 0}))).tokens,
              ElementsAre(69999, 0));
  EXPECT_THAT(read("a.npy", npy("<i8", "(2,)", raw<int64_t>({69999, 0}))).tokens,
              ElementsAre(69999, 0));
  EXPECT_THAT(read("a.npy", npy("<u2", "(1,)", raw<uint16_t>({9}), 2)).tokens, ElementsAre(9));
}

TEST_F(Tokens, numpyFilesThatCannotBeTaken) {
  std::string ids = raw<uint16_t>({1, 2, 3, 4});
  EXPECT_THAT(refusal("a.npy", npy("<f4", "(2,)", ids)),
              AllOf(HasSubstr("a.npy"), HasSubstr("<f4")));
  EXPECT_THAT(refusal("a.npy", npy(">u2", "(4,)", ids)), HasSubstr(">u2"));
  EXPECT_THAT(refusal("a.npy", npy("|u1", "(8,)", ids)), HasSubstr("|u1"));
  EXPECT_THAT(refusal("a.npy", npy("<u2", "(2, 2)", ids)), HasSubstr("one dimension"));
  EXPECT_THAT(refusal("a.npy", npy("<u2", "()", ids)), HasSubstr("one dimension"));
  EXPECT_THAT(refusal("a.npy", npy("<u2", "(5,)", ids)), HasSubstr("5 ids"));
  EXPECT_THAT(refusal("a.npy", npy("<u2", "(3,)", ids)), HasSubstr("3 ids"));
  EXPECT_THAT(refusal("a.npy", npy("<u2", "(99999999999999999999,)", ids)), HasSubstr("a.npy"));
  EXPECT_THAT(refusal("a.npy", npy("<u2", "(4,)", ids, 9)), HasSubstr("version 9"));
  EXPECT_THAT(refusal("a.npy", "PK\x03\x04 an npz archive"), HasSubstr("no NumPy file"));
  EXPECT_THAT(refusal("a.npy", ""), HasSubstr("no NumPy file"));
  std::string longer = npy("<u2", "(4,)", ids);
  longer[8] = longer[9] = '\xff';
  EXPECT_THAT(refusal("a.npy", longer), HasSubstr("65535 bytes"));
}

TEST_F(Tokens, binaryFilesOfLlmcAndNanoGpt) {
  std::string two = raw<uint16_t>({50256, 7}), four = raw<uint32_t>({69999, 7});
  EXPECT_THAT(read("a.bin", llmc(20240520, 1, 2, two)).tokens, ElementsAre(50256, 7));
  EXPECT_THAT(read("a.bin", llmc(20240801, 7, 2, four)).tokens, ElementsAre(69999, 7));
  EXPECT_THAT(read("a.bin", two).tokens, ElementsAre(50256, 7)); // nanoGPT's have no header
  EXPECT_THAT(refusal("a.bin", llmc(20240520, 1, 3, two)),
              AllOf(HasSubstr("a.bin"), HasSubstr("3 tokens"), HasSubstr("4 bytes")));
  EXPECT_THAT(refusal("a.bin", llmc(20240520, 1, -1, two)), HasSubstr("-1 tokens"));
  EXPECT_THAT(refusal("a.bin", two + "x"), HasSubstr("5 bytes"));
}

TEST_F(Tokens, idsOutsideTheVocabularyAreRefusedWithTheirPosition) {
  EXPECT_THAT(refusal("a.bin", raw<uint16_t>({1, 2, 300}), 300),
              AllOf(HasSubstr("id 300"), HasSubstr("position 2"), HasSubstr("300")));
  EXPECT_EQ(refusal("a.bin", raw<uint16_t>({1, 2, 299}), 300), "");
  EXPECT_THAT(refusal("a.npy", npy("<i8", "(1,)", raw<int64_t>({-1}))), HasSubstr("id -1"));
  EXPECT_THAT(refusal("a.npy", npy("<i8", "(1,)", raw<int64_t>({int64_t(1) << 32}))),
              HasSubstr("id 4294967296"));
  EXPECT_THAT(refusal("a.txt", "text", 255), HasSubstr("256"));
}

TEST_F(Tokens, textIsItsBytes) {
  EXPECT_THAT(read("a.txt", "a\xc3\xa4\n<|x|>").tokens,
              ElementsAre('a', 0xc3, 0xa4, '\n', '<', '|', 'x', '|', '>'));
  TokenStream windows = read("a.txt", "a\r\nb");
  EXPECT_THAT(windows.tokens, ElementsAre('a', '\r', '\n', 'b'));
  EXPECT_THAT(windows.notes, ElementsAre(HasSubstr("carriage returns")));
  EXPECT_THAT(read("a.txt", "a\nb").notes, IsEmpty());
}

TEST_F(Tokens, emptyDocumentsAnywhereAreSkippedAndCounted) {
  TokenStream stream = read("a.jsonl", "{\"text\": \"\"}\n{\"text\": \"a\"}\n{\"text\": \"\"}\n\n"
                                       "{\"text\": \"b\"}\r\n{\"text\": \"\"}");
  EXPECT_THAT(stream.tokens, ElementsAre('a', 'b'));
  EXPECT_EQ(stream.documents, 5);
  EXPECT_EQ(stream.emptyDocuments, 3);
  EXPECT_THAT(stream.notes, ElementsAre(HasSubstr("3 of 5 documents are empty")));
}

TEST_F(Tokens, promptsAndCompletionsAreSequencesOfTheirOwn) {
  TokenStream stream = read("a.jsonl", R"({"prompt": "ab", "completion": "cde"}
{"text": "running"}
{"completion": "x", "prompt": "é"}
{"prompt": "", "completion": "y"}
{"prompt": "q", "completion": ""}
{"prompt": "qr", "completion": ""})");
  EXPECT_EQ(stream.tokens.size(), 7u);
  ASSERT_EQ(stream.examples.size(), 3u);
  EXPECT_EQ(stream.emptyDocuments, 2); // one token has nothing to predict it from
  auto facts = [&](size_t i) {
    const Example &e = stream.examples[i];
    return std::vector<int64_t>{e.begin, e.tokens, e.prompt, e.line};
  };
  EXPECT_THAT(facts(0), ElementsAre(0, 5, 2, 1));
  EXPECT_THAT(facts(1), ElementsAre(5, 3, 2, 3)); // é has two bytes
  EXPECT_THAT(facts(2), ElementsAre(8, 2, 2, 6));
  EXPECT_THAT(stream.exampleTokens,
              ElementsAre('a', 'b', 'c', 'd', 'e', 0xc3, 0xa9, 'x', 'q', 'r'));
}

TEST_F(Tokens, badLinesAreNamedByFileAndNumber) {
  for (const char *line :
       {"x", "[]", "{}", "{\"text\": 3}", "{\"text\": \"a\"", "{\"prompt\": \"a\"}",
        "{\"completion\": \"a\"}", "{\"prompt\": 1, \"completion\": \"a\"}",
        "{\"prompt\": \"a\", \"completion\": null}", "{\"text\": \"\xff\"}",
        "{\"text\": \"a\", \"prompt\": \"a\", \"completion\": \"b\"}"})
    EXPECT_THAT(refusal("a.jsonl", "{\"text\": \"a\"}\n\n" + std::string(line) + "\n"),
                HasSubstr("a.jsonl:3: "))
        << line;
}

TEST_F(Tokens, filesAreFoundByPatternInTheOrderOfTheirNames) {
  put(folder / "part-2.txt", "b");
  put(folder / "part-1.txt", "a");
  put(folder / "other.txt", "x");
  std::vector<std::filesystem::path> pattern = {folder / "part-*.txt"};
  EXPECT_THAT(readTokens(pattern, 256).tokens, ElementsAre('a', 'b'));
  std::vector<std::filesystem::path> nothing = {folder / "none-*.txt"};
  EXPECT_THAT(errorOf([&] { readTokens(nothing, 256); }), HasSubstr("none-*.txt"));
}

TEST_F(Tokens, hashIsThatOfTheContents) {
  std::string hash = read("a.txt", "some text").hash();
  EXPECT_EQ(read("b.txt", "some text").hash(), hash);
  EXPECT_EQ(read("b.bin", raw<uint16_t>({'s', 'o', 'm', 'e', ' ', 't', 'e', 'x', 't'})).hash(),
            hash);
  EXPECT_NE(read("a.txt", "some texs").hash(), hash);
  EXPECT_NE(read("a.txt", "some tex").hash(), hash);
  std::string prompt = read("a.jsonl", R"({"prompt": "ab", "completion": "c"})").hash();
  EXPECT_NE(read("a.jsonl", R"({"prompt": "a", "completion": "bc"})").hash(), prompt);
  EXPECT_NE(read("a.txt", "abc").hash(), prompt);
}

} // namespace
