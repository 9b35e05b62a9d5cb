// .npy and .npz: what numpy writes is read, what is read back is what was written, nonsense is an
// error.

#include "io/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "io/npz.h"
#include "io/tensor_file.h"
#include "support/mapped_file.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

std::string npy_text(const std::string& dict, const std::string& data) {
  std::string text("\x93NUMPY\x01\x00", 8);
  text += static_cast<char>(dict.size() & 0xff);
  text += static_cast<char>(dict.size() >> 8);
  return text + dict + data;
}

Result<HostTensor> parse(const std::string& text) {
  auto owner = std::make_shared<const std::string>(text);
  return parse_npy(std::as_bytes(std::span(owner->data(), owner->size())), owner);
}

std::vector<double> values_of(const Result<HostTensor>& tensor) {
  std::vector<double> values;
  EXPECT_TRUE(tensor.ok()) << tensor.error().message;
  if (!tensor.ok()) return values;
  for (int64_t i = 0; i < tensor->size(); ++i) values.push_back(tensor->at_double(i));
  return values;
}

template <typename T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

TEST(Npy, ReadsOrdersOfBytesAndElements) {
  const std::string data = raw<int16_t>({1, 2, 3, 4, 5, 6});
  EXPECT_THAT(values_of(parse(
                  npy_text("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }", data))),
              ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(
      values_of(parse(npy_text("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3)}", data))),
      ElementsAre(1, 3, 5, 2, 4, 6));
  EXPECT_THAT(
      values_of(parse(npy_text("{'shape': (6,), 'descr': '>i2', 'fortran_order': False}", data))),
      ElementsAre(256, 512, 768, 1024, 1280, 1536));
  EXPECT_THAT(values_of(parse(npy_text("{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}",
                                       "\x01\x02\x05"))),
              ElementsAre(1, 1, 1));
  EXPECT_THAT(values_of(parse(npy_text("{'descr': '<f8', 'fortran_order': False, 'shape': ()}",
                                       raw<double>({2.5})))),
              ElementsAre(2.5));
}

TEST(Npy, RefusesWhatIsNotThere) {
  const auto error = [](const std::string& text) {
    const auto tensor = parse(text);
    return tensor.ok() ? "no error" : tensor.error().message;
  };
  const std::string f4 = "{'descr': '<f4', 'fortran_order': False, 'shape': ";
  EXPECT_THAT(error("no numpy"), HasSubstr("not a .npy"));
  EXPECT_THAT(error(npy_text(f4 + "(2,)}", "1234")),
              HasSubstr("4 bytes of data where its header says 8"));
  EXPECT_THAT(error(npy_text(f4 + "(-1,)}", "1234")), HasSubstr("broken header"));
  EXPECT_THAT(error(npy_text(f4 + "(4294967296, 4294967296, 4)}", "1234")),
              HasSubstr("more than there can be"));
  EXPECT_THAT(error(npy_text(f4 + "(99999999999999999999,)}", "1234")), HasSubstr("broken header"));
  EXPECT_THAT(error(npy_text(f4, "1234")), HasSubstr("broken header"));
  EXPECT_THAT(error(npy_text("{'descr': '<c8', 'fortran_order': False, 'shape': ()}", "12345678")),
              HasSubstr("'<c8'"));
  EXPECT_THAT(
      error(npy_text("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", "1234")),
      HasSubstr("broken header"));
  std::string cut = npy_text(f4 + "(1,)}", "1234");
  cut[8] = static_cast<char>(0xff);
  EXPECT_THAT(error(cut), HasSubstr("cut short"));
}

class NumpyFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("weft-npy-" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  fs::path folder_;
};

HostTensor counting(DType type, Shape shape) {
  HostTensor tensor(type, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.set_double(i, static_cast<double>(i % 2 + i));
  return tensor;
}

TEST_F(NumpyFiles, KeepEveryType) {
  for (DType type :
       {DType::kBool, DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8, DType::kU16,
        DType::kU32, DType::kU64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    SCOPED_TRACE(dtype_name(type));
    for (const Shape& shape : {Shape{}, Shape{5}, Shape{2, 0, 3}, Shape{2, 3, 4}}) {
      const HostTensor tensor = counting(type, shape);
      ASSERT_TRUE(save_npy(path("t.npy"), tensor).ok());
      EXPECT_EQ(fs::file_size(path("t.npy")) - static_cast<size_t>(tensor.bytes()),
                npy_header(tensor).size());
      EXPECT_EQ(npy_header(tensor).size() % 64, 0u);
      const auto read = load_npy(path("t.npy"));
      ASSERT_TRUE(read.ok()) << read.error().message;
      EXPECT_EQ(read->dtype(), type);
      EXPECT_EQ(read->shape(), shape);
      EXPECT_EQ(std::memcmp(read->raw(), tensor.raw(), static_cast<size_t>(tensor.bytes())), 0);
    }
  }
}

TEST_F(NumpyFiles, LeaveNothingBehindOnFailure) {
  const HostTensor tensor = counting(DType::kF32, {3});
  const Status status = save_npy(path("no/such/folder.npy"), tensor);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("No such file"));
  fs::create_directory(path("taken.npy"));
  EXPECT_FALSE(save_npy(path("taken.npy"), tensor).ok());
  EXPECT_FALSE(save_npz(path("no/such/folder.npz"), {{"a", tensor}}).ok());
  size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder_)) ++entries;
  EXPECT_EQ(entries, 1u);
}

TEST_F(NumpyFiles, ArchiveArraysByName) {
  const std::map<std::string, HostTensor> arrays{{"a", counting(DType::kF32, {3})},
                                                 {"b/c", counting(DType::kI64, {2, 2})}};
  ASSERT_TRUE(save_npz(path("t.npz"), arrays).ok());
  const auto read = load_npz(path("t.npz"));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->size(), 2u);
  EXPECT_THAT(values_of(read->at("b/c")), ElementsAre(0, 2, 2, 4));
  EXPECT_THAT(values_of(load_npz_member(path("t.npz"), "a")), ElementsAre(0, 2, 2));
  EXPECT_THAT(values_of(load_tensor(path("t.npz:a"))), ElementsAre(0, 2, 2));
  EXPECT_THAT(load_npz_member(path("t.npz"), "x").error().message, HasSubstr("it has: a, b/c"));
  EXPECT_THAT(load_tensor(path("t.npz")).error().message, HasSubstr("2 arrays"));
  EXPECT_THAT(load_tensor(path("t.txt")).error().message, HasSubstr("expected"));
}

TEST_F(NumpyFiles, ArchivesAreTheSameEveryTime) {
  const std::map<std::string, HostTensor> arrays{{"a", counting(DType::kF32, {3})}};
  ASSERT_TRUE(save_npz(path("1.npz"), arrays).ok());
  ASSERT_TRUE(save_npz(path("2.npz"), arrays).ok());
  const auto one = map_file(path("1.npz")), two = map_file(path("2.npz"));
  ASSERT_TRUE(one.ok() && two.ok());
  ASSERT_EQ(one->bytes.size(), two->bytes.size());
  EXPECT_EQ(std::memcmp(one->bytes.data(), two->bytes.data(), one->bytes.size()), 0);
}

TEST_F(NumpyFiles, SurviveMutation) {
  ASSERT_TRUE(save_npz(path("t.npz"),
                       {{"a", counting(DType::kF32, {3})}, {"b", counting(DType::kBF16, {2, 2})}})
                  .ok());
  std::ifstream file(path("t.npz"), std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(file), {}};
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    std::string bad = good;
    if (i % 4 == 0) {
      bad.resize(random() % bad.size());
    } else {
      for (int k = 0; k < 3; ++k) bad[random() % bad.size()] = static_cast<char>(random());
    }
    std::ofstream(path("bad.npz"), std::ios::binary) << bad;
    const auto read = load_npz(path("bad.npz"));
    if (!read.ok()) EXPECT_FALSE(read.error().message.empty());
  }
}

}  // namespace
}  // namespace weft
