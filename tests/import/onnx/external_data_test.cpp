// Tensors in other files: only inside the model's folder, only bytes that are there.

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/import/onnx/importing.h"

namespace weft::onnx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

class ExternalData : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("weft-external-" + std::to_string(getpid()));
    fs::create_directories(root_ / "model" / "data");
    write(root_ / "model" / "data" / "w.bin");
    write(root_ / "secret.bin");
    fs::create_symlink(root_ / "secret.bin", root_ / "model" / "link.bin");
  }
  void TearDown() override { fs::remove_all(root_); }

  /// Five floats: 1 2 3 4 5.
  static void write(const fs::path& path) {
    std::ofstream file(path, std::ios::binary);
    for (float value : {1.0f, 2.0f, 3.0f, 4.0f, 5.0f}) {
      file.write(reinterpret_cast<const char*>(&value), sizeof(value));
    }
  }

  /// y = w for a tensor of two floats in another file.
  static std::string model(const std::map<std::string, std::string>& entries) {
    std::string tensor;
    protozero::pbf_writer message(tensor);
    message.add_int64(1, 2);
    message.add_int32(2, 1);
    message.add_string(8, "w");
    message.add_int32(14, 1);
    for (const auto& [key, value] : entries) {
      std::string entry;
      protozero::pbf_writer writer(entry);
      writer.add_string(1, key);
      writer.add_string(2, value);
      message.add_message(13, entry);
    }
    return TestModel()
        .initializer_message(tensor)
        .node({"Identity", {"w"}, {"y"}})
        .output("y")
        .model();
  }

  std::string error(const std::map<std::string, std::string>& entries) const {
    const auto imported = import_bytes(model(entries), {}, (root_ / "model").string());
    return imported.ok() ? "no error" : imported.error().message;
  }

  fs::path root_;
};

TEST_F(ExternalData, IsReadFromItsOffset) {
  const auto imported =
      import_bytes(model({{"location", "data/w.bin"}, {"offset", "4"}, {"length", "8"}}), {},
                   (root_ / "model").string());
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  const auto outputs = interpret(imported->graph, {});
  ASSERT_TRUE(outputs.ok());
  EXPECT_THAT(values_of((*outputs)[0]), ElementsAre(2, 3));
}

TEST_F(ExternalData, StaysInsideTheModelsFolder) {
  EXPECT_THAT(error({{"location", "../secret.bin"}}), HasSubstr("leads out"));
  EXPECT_THAT(error({{"location", "data/../../secret.bin"}}), HasSubstr("leads out"));
  EXPECT_THAT(error({{"location", (root_ / "secret.bin").string()}}), HasSubstr("absolute"));
  EXPECT_THAT(error({{"location", "link.bin"}}), HasSubstr("link leads out"));
  EXPECT_THAT(error({{"location", ""}}), HasSubstr("empty"));
  EXPECT_THAT(error({{"location", std::string("data/w.bin\0x", 12)}}), HasSubstr("zero byte"));
  EXPECT_THAT(error({{"location", "data"}}), HasSubstr("directory"));
}

TEST_F(ExternalData, IsWithinItsFile) {
  EXPECT_THAT(error({{"location", "data/w.bin"}, {"offset", "16"}}), HasSubstr("not within"));
  EXPECT_THAT(error({{"location", "data/w.bin"}, {"offset", "-8"}}), HasSubstr("not within"));
  EXPECT_THAT(error({{"location", "data/w.bin"}, {"length", "12"}}), HasSubstr("holds 12 bytes"));
  EXPECT_THAT(error({{"location", "data/w.bin"}, {"length", "9223372036854775807"}}),
              HasSubstr("not within"));
  EXPECT_THAT(error({{"location", "data/w.bin"}, {"offset", "99999999999999999999"}}),
              HasSubstr("not a number"));
  EXPECT_THAT(error({{"location", "none.bin"}}), HasSubstr("No such file"));
}

TEST_F(ExternalData, NeedsAFolder) {
  const auto imported = import_bytes(model({{"location", "data/w.bin"}}));
  ASSERT_FALSE(imported.ok());
  EXPECT_THAT(imported.error().message, HasSubstr("no folder"));
}

}  // namespace
}  // namespace weft::onnx
