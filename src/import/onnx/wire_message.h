#pragma once

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <string_view>
#include <vector>

#include "import/builder/refusal.h"

namespace weft::onnx {

/// The fields of one protobuf message in the order of the file. Where protozero asserts that a
/// field has the wire type that the caller expects, this refuses; truncated input is protozero's
/// exception.
///
///     for (WireMessage m(bytes); m.next();) switch (m.field()) { case 1: x.name = m.bytes();
///     break; default: m.skip(); }
class WireMessage {
 public:
  explicit WireMessage(std::string_view bytes) : reader_(bytes.data(), bytes.size()) {}

  bool next() { return reader_.next(); }
  uint32_t field() const { return reader_.tag(); }
  void skip() { reader_.skip(); }

  std::string_view bytes() {
    expect(protozero::pbf_wire_type::length_delimited);
    const protozero::data_view view = reader_.get_view();
    return {view.data(), view.size()};
  }
  int64_t integer() {
    expect(protozero::pbf_wire_type::varint);
    return reader_.get_int64();
  }
  float f32() {
    expect(protozero::pbf_wire_type::fixed32);
    return reader_.get_float();
  }
  double f64() {
    expect(protozero::pbf_wire_type::fixed64);
    return reader_.get_double();
  }

  /// Repeated numbers, packed or one by one.
  void append_integers(std::vector<int64_t>& to) {
    if (!is_packed()) return to.push_back(integer());
    for (int64_t value : reader_.get_packed_int64()) to.push_back(value);
  }
  void append_f32(std::vector<float>& to) {
    if (!is_packed()) return to.push_back(f32());
    for (float value : reader_.get_packed_float()) to.push_back(value);
  }
  void append_f64(std::vector<double>& to) {
    if (!is_packed()) return to.push_back(f64());
    for (double value : reader_.get_packed_double()) to.push_back(value);
  }

 private:
  bool is_packed() const {
    return reader_.wire_type() == protozero::pbf_wire_type::length_delimited;
  }
  void expect(protozero::pbf_wire_type type) const {
    if (reader_.wire_type() != type) {
      refuse_invalid("field " + std::to_string(reader_.tag()) + " has the wrong wire type");
    }
  }

  protozero::pbf_reader reader_;
};

}  // namespace weft::onnx
