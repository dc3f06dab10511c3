// SPDX-License-Identifier: Apache-2.0
#include "runtime/io/SafetensorsHeader.h"

#include "runtime/base/Error.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace ftlm {
namespace {

/// The events of the JSON parser. `place` says where in the header the next one is.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
public:
  explicit HeaderReader(const std::string &name) : name(name) {}
  SafetensorsHeader result;

  bool start_object(size_t) override {
    if (place == Place::Start)
      place = Place::Header;
    else if (place == Place::Entry && lastKey == "__metadata__")
      place = Place::Metadata;
    else if (place == Place::Entry) {
      place = Place::Tensor;
      seen = 0;
      result.tensors.push_back({lastKey, "", {}});
    } else
      throw unexpected("an object");
    return true;
  }
  bool end_object() override {
    if (place == Place::Tensor && seen != 7)
      throw fail("lacks dtype, shape or data_offsets");
    place = place == Place::Header ? Place::End : Place::Header;
    return true;
  }
  bool key(std::string &text) override {
    if (place == Place::Header) {
      lastKey = text;
      if (!names.insert(text).second)
        throw badInput(name, fmt::format("names '{}' twice in its header", text));
      place = Place::Entry;
    } else if (place == Place::Metadata) {
      metadataKey = text;
      if (!result.metadata.try_emplace(text).second)
        throw badInput(name, fmt::format("names '{}' twice in its metadata", text));
    } else {
      field = text == "dtype" ? 1 : text == "shape" ? 2 : text == "data_offsets" ? 4 : 0;
      if (field == 0)
        throw fail(fmt::format("has a key '{}'; expected dtype, shape and data_offsets", text));
      if (seen & field)
        throw fail(fmt::format("names '{}' twice", text));
      seen |= field;
      place = Place::Field;
    }
    return true;
  }
  bool string(std::string &text) override {
    if (place == Place::Metadata)
      result.metadata[metadataKey] = text;
    else if (place == Place::Field && field == 1) {
      result.tensors.back().dtype = text;
      place = Place::Tensor;
    } else
      throw unexpected("a text");
    return true;
  }
  bool start_array(size_t) override {
    if (place != Place::Field || field == 1)
      throw unexpected("a list");
    place = Place::List;
    count = 0;
    return true;
  }
  bool end_array() override {
    if (field == 4 && count != 2)
      throw fail(fmt::format("has {} data_offsets; expected 2", count));
    place = Place::Tensor;
    return true;
  }
  bool number_unsigned(uint64_t value) override {
    if (place != Place::List)
      throw unexpected("a number");
    TensorEntry &tensor = result.tensors.back();
    if (field == 2 && tensor.shape.size() == maxRank)
      throw fail(fmt::format("has more than {} dimensions", maxRank));
    if (field == 4 && count == 2)
      throw fail("has more than 2 data_offsets");
    if (field == 2)
      tensor.shape.push_back(value);
    else
      (count == 0 ? tensor.begin : tensor.end) = value;
    ++count;
    return true;
  }
  bool number_integer(int64_t value) override {
    throw unexpected(fmt::format("the number {}", value));
  }
  bool number_float(double, const std::string &text) override {
    throw unexpected("the number " + text.substr(0, 40));
  }
  bool null() override { throw unexpected("null"); }
  bool boolean(bool) override { throw unexpected("a truth value"); }
  bool binary(nlohmann::json::binary_t &) override { throw unexpected("binary data"); }
  bool parse_error(size_t at, const std::string &, const nlohmann::detail::exception &) override {
    throw badInput(name, fmt::format("has a header that is no JSON: byte {} of it", at));
  }

private:
  enum class Place { Start, Header, Entry, Metadata, Tensor, Field, List, End };
  static constexpr size_t maxRank = 16;

  Error fail(const std::string &what) {
    return badInput(name, fmt::format("tensor '{}' {}", lastKey, what));
  }
  Error unexpected(const std::string &what) {
    if (place == Place::Start)
      return badInput(name, "has a header that is not a JSON object");
    if (place == Place::Metadata || lastKey == "__metadata__")
      return badInput(name, fmt::format("has {} in its metadata; expected texts", what));
    const char *part = place == Place::Entry ? "as its description"
                       : field == 1          ? "as its dtype"
                       : field == 2          ? "in its shape"
                                             : "in its data_offsets";
    return fail(fmt::format("has {} {}", what, part));
  }

  const std::string &name;
  Place place = Place::Start;
  std::string lastKey, metadataKey;
  std::unordered_set<std::string> names;
  int field = 0, seen = 0;
  size_t count = 0;
};

} // namespace

SafetensorsHeader readSafetensorsHeader(std::string_view text, const std::string &name) {
  HeaderReader reader(name);
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  return std::move(reader.result);
}

} // namespace ftlm
