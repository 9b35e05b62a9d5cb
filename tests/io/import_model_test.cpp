#include "io/import_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "io/gzip.h"
#include "tests/paths.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kModule = R"(HloModule m
ENTRY main {
  x = f32[3] parameter(0)
  ROOT y = f32[3] negate(x)
}
)";

class ImportModel : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("weft-import-" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& content) const {
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  std::string pack(const std::string& name, const std::string& content) const {
    const std::string path = (folder_ / name).string();
    const gzFile file = gzopen(path.c_str(), "wb");
    EXPECT_EQ(gzwrite(file, content.data(), static_cast<unsigned>(content.size())),
              static_cast<int>(content.size()));
    gzclose(file);
    return path;
  }

  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  static std::string error(const std::string& path) {
    const auto model = import_model(path);
    return model.ok() ? "no error" : model.error().message;
  }

  fs::path folder_;
};

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST_F(ImportModel, PicksTheReaderByContent) {
  for (const std::string& path :
       {write("m.hlo", kModule), write("module.txt", kModule), pack("m.hlo.gz", kModule),
        pack("packed", kModule), write("gz.hlo", read(pack("other", kModule)))}) {
    const auto model = import_model(path);
    ASSERT_TRUE(model.ok()) << path << model.error().message;
    EXPECT_EQ(model->inputs.at(0).name, "arg0");
    EXPECT_EQ(model->graph.output_names.at(0), "out0");
    ASSERT_EQ(model->files.size(), 1U);
    EXPECT_EQ(model->files[0].path, path);
  }
  const auto onnx = import_model(std::string(WEFT_SOURCE_DIR) + "/tests/models/mlp.onnx");
  ASSERT_TRUE(onnx.ok()) << onnx.error().message;
  EXPECT_GT(onnx->opset, 0);
}

TEST_F(ImportModel, NamesTheFileInErrors) {
  EXPECT_THAT(error(write("empty.hlo", "")), HasSubstr("empty.hlo': line 1, column 1"));
  EXPECT_THAT(error(write("wrong.hlo", "HloModule m\nENTRY x {")), HasSubstr("wrong.hlo': line 2"));
  EXPECT_THAT(error((folder_ / "none.hlo").string()), HasSubstr("No such file"));
  EXPECT_THAT(error(pack("text.gz", "just text")), HasSubstr("no HLO module"));
}

TEST_F(ImportModel, RefusesDamagedPacks) {
  const std::string packed = read(pack("whole.hlo.gz", kModule));
  EXPECT_THAT(error(write("cut.hlo.gz", packed.substr(0, packed.size() / 2))),
              HasSubstr("cut short"));
  std::string damaged = packed;
  damaged[packed.size() / 2] = static_cast<char>(damaged[packed.size() / 2] ^ 0xff);
  EXPECT_THAT(error(write("damaged.hlo.gz", damaged)), HasSubstr("gzip data"));
}

TEST_F(ImportModel, BoundsWhatAPackHolds) {
  const std::string zeros(5'000'000, '\0');
  const std::string packed = read(pack("zeros.gz", zeros));
  EXPECT_LT(packed.size(), 10'000U);
  const auto whole = unpack_gzip(bytes_of(packed), zeros.size());
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  EXPECT_EQ(whole->size(), zeros.size());
  const auto limited = unpack_gzip(bytes_of(packed), zeros.size() - 1);
  ASSERT_FALSE(limited.ok());
  EXPECT_THAT(limited.error().message, HasSubstr("more than 4999999 bytes"));
  const auto twice = unpack_gzip(bytes_of(packed + packed), 2 * zeros.size());
  ASSERT_TRUE(twice.ok()) << twice.error().message;
  EXPECT_EQ(twice->size(), 2 * zeros.size());
}

std::vector<std::string> hlo_models() {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(std::string(WEFT_SOURCE_DIR) + "/models/hlo")) {
    paths.push_back(entry.path().string());
  }
  std::ranges::sort(paths);
  return paths;
}

TEST(HloModels, Import) {
  const std::vector<std::string> paths = hlo_models();
  EXPECT_EQ(paths.size(), 35U);
  for (const std::string& path : paths) {
    const auto model = import_model(path);
    ASSERT_TRUE(model.ok()) << model.error().message;
    const Status verified = verify_graph(model->graph);
    EXPECT_TRUE(verified.ok()) << path << ": " << verified.error().message;
    // All their loops are scans: their trip counts stand in the text.
    for (const Node& node : model->graph.nodes) {
      EXPECT_NE(node.op, GraphOp::kWhile) << path;
    }
  }
}

TEST(HloModels, AreTheSameInEitherSyntax) {
  const std::string folder = std::string(WEFT_SOURCE_DIR) + "/models/hlo/";
  for (const auto& [shorter, longer] : {std::pair{"logistic.hlo", "logistic.verbose.hlo"},
                                        std::pair{"dien-infer.hlo", "dien-infer.verbose.hlo.gz"}}) {
    const auto a = import_model(folder + shorter), b = import_model(folder + longer);
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ(print(a->graph), print(b->graph));
  }
}

}  // namespace
}  // namespace weft
