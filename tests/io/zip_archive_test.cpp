#include "io/zip_archive.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

namespace weft {
namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> out(text.size());
  std::memcpy(out.data(), text.data(), text.size());
  return out;
}

std::vector<std::byte> file_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return bytes_of({std::istreambuf_iterator<char>(in), {}});
}

/// An archive of two members, the second of two parts.
std::vector<std::byte> written(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  const std::string path = testing::TempDir() + "weft-zip-" + std::to_string(getpid()) + ".zip";
  const std::span<const std::byte> whole(b);
  const std::vector<ZipSource> members = {
      {"a.npy", {a}}, {"\xc3\xa9/b", {whole.first(b.size() / 2), whole.subspan(b.size() / 2)}}};
  const Status status = write_zip(path, members);
  EXPECT_TRUE(status.ok()) << status.error().message;
  auto out = file_bytes(path);
  std::filesystem::remove(path);
  return out;
}

TEST(ZipArchive, ReadsWhatItWrites) {
  const auto a = bytes_of(std::string(70000, 'x')), b = bytes_of("0123456789");
  const auto archive = written(a, b);
  EXPECT_EQ(archive, written(a, b));
  auto members = read_zip_directory(archive);
  ASSERT_TRUE(members.ok()) << members.error().message;
  ASSERT_EQ(members->size(), 2U);
  EXPECT_EQ((*members)[0].name, "a.npy");
  EXPECT_EQ((*members)[1].name, "\xc3\xa9/b");
  auto first = extract(archive, (*members)[0]), second = extract(archive, (*members)[1]);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, a);
  EXPECT_EQ(*second, b);
}

TEST(ZipArchive, InflatesAndKnowsTheChecksum) {
  // printf 'hello hello hello hello' in a deflated member "h", by Python's zipfile.
  constexpr unsigned char kArchive[] = {
      0x50, 0x4b, 0x03, 0x04, 0x14, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x21, 0x00,
      0xe3, 0x51, 0x3d, 0x8d, 0x0a, 0x00, 0x00, 0x00, 0x17, 0x00, 0x00, 0x00, 0x01, 0x00,
      0x00, 0x00, 0x68, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x57, 0xc8, 0x40, 0x27, 0x01, 0x50,
      0x4b, 0x01, 0x02, 0x14, 0x03, 0x14, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x21,
      0x00, 0xe3, 0x51, 0x3d, 0x8d, 0x0a, 0x00, 0x00, 0x00, 0x17, 0x00, 0x00, 0x00, 0x01,
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x01, 0x00,
      0x00, 0x00, 0x00, 0x68, 0x50, 0x4b, 0x05, 0x06, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00,
      0x01, 0x00, 0x2f, 0x00, 0x00, 0x00, 0x29, 0x00, 0x00, 0x00, 0x00, 0x00};
  std::vector<std::byte> archive(sizeof kArchive);
  std::memcpy(archive.data(), kArchive, sizeof kArchive);
  auto members = read_zip_directory(archive);
  ASSERT_TRUE(members.ok()) << members.error().message;
  auto content = extract(archive, members->at(0));
  ASSERT_TRUE(content.ok()) << content.error().message;
  EXPECT_EQ(*content, bytes_of("hello hello hello hello"));

  archive[14] ^= std::byte{1};  // of the checksum, in both records
  archive[57] ^= std::byte{1};
  members = read_zip_directory(archive);
  ASSERT_TRUE(members.ok());
  EXPECT_FALSE(extract(archive, members->at(0)).ok());
}

TEST(ZipArchive, RefusesDamagedArchives) {
  const auto good = written(bytes_of(std::string(300, 'x')), bytes_of("0123456789"));
  EXPECT_FALSE(read_zip_directory({}).ok());
  EXPECT_FALSE(read_zip_directory(std::span(good).first(good.size() - 30)).ok());
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    auto archive = good;
    for (int i = 0; i < 3; ++i) archive[random() % archive.size()] = std::byte(random());
    auto members = read_zip_directory(archive);
    bool fine = members.ok();
    for (size_t m = 0; fine && m < members->size(); ++m) {
      auto content = extract(archive, (*members)[m]);
      fine = content.ok();
      if (fine) EXPECT_LE(content->size(), archive.size() * 1040);
    }
    refused += fine ? 0 : 1;
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace weft
