// Artefact files: round trip, sharing, refusals, damage.

#include "runtime/artefact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>

#include "runtime/program_codec.h"
#include "support/atomic_file.h"
#include "support/hash.h"
#include "tests/runtime/program_fixture.h"

namespace weft::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Fixture = ProgramFixture;
using Bytes = std::vector<std::byte>;

class Artefact : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("weft-artefact-" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name = "m.weft") const { return folder_ / name; }
  Bytes read(const std::string& file) const {
    std::ifstream stream(file, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(stream)), {});
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    return {bytes.begin(), bytes.end()};
  }
  void write(const std::string& file, const Bytes& bytes) const {
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  Result<std::vector<Program>> load(const std::string& file) const {
    const std::vector<std::string> features = {"avx2", "fma"};
    return load_artefact(file, features);
  }
  static Result<std::vector<Program>> parse(const Bytes& bytes) {
    auto copy = std::make_shared<HostTensor>(DType::kU8, Shape{static_cast<int64_t>(bytes.size())});
    if (!bytes.empty()) std::memcpy(copy->mutable_raw(), bytes.data(), bytes.size());
    const std::span<const std::byte> file(copy->raw(), bytes.size());
    const std::vector<std::string> features = {"avx2", "fma"};
    return parse_artefact(copy, file, "m.weft", features);
  }
  static std::string error_of(const Bytes& bytes) {
    const auto programs = parse(bytes);
    return programs.ok() ? "" : programs.error().message;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  fs::path folder_;
};

/// One of everything: constants, a scan, a while-loop, an if, host operations.
Fixture rich(int64_t n) {
  Fixture f;
  f.program.model = "rich";
  f.program.target = "test-cpu";
  f.program.required_features = {"fma"};
  const int32_t x = f.input("x", {3, n}), flag = f.input("flag", {}, DType::kBool);
  f.program.inputs[0].alignment = 4;
  const int32_t y = f.output("y", {3, n}), last = f.output("last", {n});
  const int32_t weights = f.constant<float>(DType::kF32, {5}, {1.5, -2.5, 3.5, 4.25, -5});
  const int32_t indices = f.constant<int64_t>(DType::kI64, {1}, {2});
  const int32_t loop = f.new_loop(), endless = f.new_loop();
  const int32_t x_t = f.slice(x, loop, {n}), y_t = f.slice(y, loop, {n}, true);
  const auto [h, h_next] = f.carry(loop, {n});
  const auto [w, w_next] = f.carry(endless, {}, DType::kBool);
  const int32_t sorted = f.arena({5}), order = f.arena({5}, DType::kI64), t = f.arena({n});
  const int32_t affine = f.kernel({double_and_one, double_and_one}), plus = f.kernel({add});
  HostStep sort, scatter;
  sort.op = HostStep::Op::kSort;
  sort.operands = {weights};
  sort.results = {sorted, order};
  sort.descending = true;
  scatter.op = HostStep::Op::kScatterElements;
  scatter.operands = {weights, indices, weights};
  scatter.operands[2] = f.constant<float>(DType::kF32, {1}, {7});
  scatter.results = {f.arena({5})};
  f.step(Fixture::host(sort));
  f.step(Fixture::host(scatter));
  ProgramStep carry_on = Fixture::launch(plus, {t, x_t, h_next}, {n}, {11, -12});
  carry_on.barrier_before = false;
  f.step(Fixture::scan(
      loop, 3, {{h, t, last}},
      {Fixture::launch(affine, {h, t}, {n, 1}), carry_on, Fixture::copy(h_next, y_t)}));
  f.step(Fixture::if_step(
      flag, {Fixture::while_loop(endless, w, {}, {{w, flag, -1}}, {Fixture::copy(w, w_next)})},
      {Fixture::serial(Fixture::launch(plus, {t, t, last}, {n}))}));
  return f;
}

Bytes encoded(const Program& program) {
  ProgramArchive archive;
  archive.entries.push_back({program, {}, {}});
  archive.entries[0].program.kernels.clear();
  archive.entries[0].program.constants.clear();
  return encode(archive);
}

TEST_F(Artefact, RoundTrip) {
  const Program program = rich(4).program;
  const Program* programs[] = {&program};
  ASSERT_TRUE(save_artefact(path(), programs).ok());
  const auto loaded = load(path());
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  ASSERT_EQ(loaded->size(), 1u);
  const Program& back = loaded->front();
  EXPECT_EQ(encoded(back), encoded(program));
  ASSERT_EQ(back.kernels.size(), program.kernels.size());
  EXPECT_EQ(back.kernels[0].name, "k0");
  EXPECT_EQ(back.kernels[0].phase_entries.size(), 2u);
  ASSERT_EQ(back.constants.size(), program.constants.size());
  EXPECT_EQ(back.constants[0].at_double(3), 4.25);
  EXPECT_EQ(back.constants[1].at_int(0), 2);
  for (const HostTensor& constant : back.constants) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(constant.raw()) % 64, 0u);
  }
  EXPECT_THAT(files(), ::testing::ElementsAre("m.weft"));
}

TEST_F(Artefact, LoadedConstantsOutliveTheirPrograms) {
  const Program program = rich(4).program;
  const Program* programs[] = {&program};
  ASSERT_TRUE(save_artefact(path(), programs).ok());
  HostTensor constant;
  {
    auto loaded = load(path());
    constant = (*loaded)[0].constants[0];
  }
  EXPECT_EQ(constant.at_double(1), -2.5);
}

TEST_F(Artefact, ProgramsShareKernelsAndConstants) {
  Fixture small = rich(4), large = rich(64);
  for (Fixture* f : {&small, &large}) {
    f->constant<uint8_t>(DType::kU8, {100'000}, std::vector<uint8_t>(100'000, 9));
    f->program.kernels[0].bytes.resize(50'000);
  }
  const Program* one[] = {&small.program};
  const Program* two[] = {&small.program, &large.program};
  ASSERT_TRUE(save_artefact(path("one"), one).ok());
  ASSERT_TRUE(save_artefact(path("two"), two).ok());
  EXPECT_LT(fs::file_size(path("two")), fs::file_size(path("one")) + 10'000);
  const auto loaded = load(path("two"));
  ASSERT_TRUE(loaded.ok());
  const Program* both[] = {&(*loaded)[0], &(*loaded)[1]};
  const Shape x = {3, 64}, flag, odd = {3, 65};
  const std::span<const int64_t> known[] = {x, flag}, unknown[] = {odd, flag};
  EXPECT_EQ(*find_program(both, known), 1u);
  EXPECT_EQ(find_program(both, unknown).error().message,
            "there is no program for these input shapes; there is x[3,4], flag[]; or x[3,64], "
            "flag[]");
}

TEST_F(Artefact, MissingFeaturesAreNamed) {
  Program program = rich(4).program;
  program.required_features = {"amx-bf16", "avx2", "avx512f", "fma"};
  const Program* programs[] = {&program};
  ASSERT_TRUE(save_artefact(path(), programs).ok());
  const auto loaded = load(path());
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ErrorCode::kMissingDevice);
  EXPECT_EQ(loaded.error().message,
            "'rich' was compiled for test-cpu, and this processor lacks: amx-bf16, avx512f; "
            "compile the model again on this machine");
}

TEST_F(Artefact, OfSeveralProgramsTheOneThatUsesMostOfTheProcessorIsLoaded) {
  Program level = rich(4).program, more = level, most = level, other_shape = rich(64).program;
  level.required_features = {"avx2"};
  more.required_features = {"avx2", "fma"};
  most.required_features = {"avx2", "avxvnni", "fma"};
  const Program* orders[][4] = {{&level, &most, &more, &other_shape},
                                {&more, &other_shape, &level, &most}};
  for (const auto& programs : orders) {
    ASSERT_TRUE(save_artefact(path(), programs).ok());
    const auto loaded = load(path());
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    ASSERT_EQ(loaded->size(), 2u);
    for (const Program& program : *loaded) {
      const bool is_small = program.inputs[0].shape == Shape{3, 4};
      EXPECT_EQ(program.required_features,
                is_small ? more.required_features : other_shape.required_features);
    }
    ArtefactOptions all;
    all.any_features = true;
    EXPECT_EQ(load_artefact(path(), {}, all)->size(), 4u);
  }
  other_shape.required_features = {"amx-bf16"};  // the only one of its shapes
  ASSERT_TRUE(save_artefact(path(), orders[0]).ok());
  EXPECT_THAT(load(path()).error().message, HasSubstr("lacks: amx-bf16"));
}

TEST_F(Artefact, OtherFilesAreRefused) {
  EXPECT_THAT(error_of({}), HasSubstr("is not a weft artefact"));
  EXPECT_THAT(error_of(Bytes(200, std::byte{'x'})), HasSubstr("is not a weft artefact"));
  EXPECT_THAT(load(path("none")).error().message, HasSubstr("No such file"));
  EXPECT_THAT(load(folder_).error().message, HasSubstr("it is a directory"));
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(load(path("pipe")).error().message, HasSubstr("not a regular file"));
}

TEST_F(Artefact, EveryTruncationIsRefused) {
  const Program program = rich(4).program;
  const Program* programs[] = {&program};
  ASSERT_TRUE(save_artefact(path(), programs).ok());
  const Bytes good = read(path());
  for (size_t size = 0; size < good.size(); size += size < 200 ? 1 : 37) {
    const std::string error = error_of(Bytes(good.begin(), good.begin() + static_cast<long>(size)));
    ASSERT_THAT(error, HasSubstr(size < 8 ? "not a weft" : "truncated")) << size;
  }
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_THAT(error_of(longer), HasSubstr("parts do not fit"));
}

TEST_F(Artefact, EveryFlippedByteIsNoticed) {
  const Program program = rich(4).program;
  const Program* programs[] = {&program};
  ASSERT_TRUE(save_artefact(path(), programs).ok());
  const Bytes good = read(path());
  size_t described = 0;
  std::memcpy(&described, good.data() + 32, sizeof described);
  for (size_t at = 0; at < good.size(); ++at) {
    if (at >= 80 + described && at < 4096) continue;  // the gap before the constants
    Bytes bad = good;
    bad[at] ^= std::byte{0x10};
    ASSERT_THAT(error_of(bad), HasSubstr("m.weft")) << at;
  }
}

TEST_F(Artefact, AnotherVersionIsNamed) {
  const Program program = rich(4).program;
  const Program* programs[] = {&program};
  ASSERT_TRUE(save_artefact(path(), programs).ok());
  Bytes bytes = read(path());
  bytes[8] = std::byte{77};
  EXPECT_THAT(error_of(bytes), AllOf(HasSubstr("version 77"), HasSubstr("compile the model")));
}

/// Repairs the checksums of a changed file, as someone who means harm would.
void repair(Bytes& bytes) {
  if (bytes.size() < 80) return;
  uint64_t offset = 0, size = 0;
  std::memcpy(&offset, bytes.data() + 24, 8);
  std::memcpy(&size, bytes.data() + 32, 8);
  if (offset <= bytes.size() && size <= bytes.size() - offset) {
    const uint64_t hash = hash64(std::span<const std::byte>(bytes).subspan(offset, size));
    std::memcpy(bytes.data() + 40, &hash, 8);
  }
  const uint64_t hash = hash64(std::span<const std::byte>(bytes).first(72));
  std::memcpy(bytes.data() + 72, &hash, 8);
}

TEST_F(Artefact, MutationsWithRightChecksumsDoNoHarm) {
  const Program program = rich(4).program;
  const Program* programs[] = {&program};
  ASSERT_TRUE(save_artefact(path(), programs).ok());
  const Bytes good = read(path());
  size_t described = 0;
  std::memcpy(&described, good.data() + 32, sizeof described);
  std::mt19937_64 random(20240607);
  const uint64_t interesting[] = {
      0, 1, 0x7f, 0xff, 0x7fffffff, 0xffffffff, ~uint64_t{0} >> 1, ~uint64_t{0}, uint64_t{1} << 48};
  int loaded = 0, refused = 0;
  for (int mutation = 0; mutation < 2000; ++mutation) {
    Bytes bad = good;
    for (uint64_t changes = random() % 3 + 1; changes > 0; --changes) {
      const size_t at = mutation % 8 == 0 ? 16 + random() % 56 : 80 + random() % described;
      const size_t width = size_t{1} << random() % 4;
      const uint64_t value = random() % 2 == 0 ? interesting[random() % 9] : random();
      std::memcpy(bad.data() + at, &value, std::min(width, bad.size() - at));
    }
    repair(bad);
    auto result = parse(bad);
    if (!result.ok()) {
      ++refused;
      EXPECT_THAT(result.error().message, HasSubstr("compile"));
      continue;
    }
    ++loaded;
    for (Program& mutated : *result) {  // up to the point where code would run
      const auto executable = Executable::create(mutated);
      if (!executable.ok()) continue;
      if (mutated.arena_bytes < 1 << 20 && (*executable)->scratch_bytes_per_thread() < 1 << 20) {
        EXPECT_TRUE(ExecutionContext::create(*executable).ok());
      }
    }
  }
  EXPECT_GT(loaded, 50);  // else the mutations would not reach the later checks
  EXPECT_GT(refused, 500);
}

TEST_F(Artefact, KeepsHowADeviceStartsAKernel) {
  Fixture f;
  const int32_t a = f.input("a", {4}), b = f.input("b", {4}), y = f.output("y", {4});
  f.step(Fixture::launch(f.kernel({add}), {a, b, y}, {1}));
  f.program.arch = "sm_90a";
  KernelImage& image = f.program.kernels[0];
  image.device = {
      "weft_1", 264, 128, 2,  49152,
      true,     2,   97,  16, "cublaslt 1x2x2x2 f32 -> f32 a 0 n 2 0 b 1 n 2 0 c 2 n 2 0"};
  const Program* programs[] = {&f.program};
  ASSERT_TRUE(save_artefact(path(), programs).ok());
  const auto again = load(path());
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ((*again)[0].arch, "sm_90a");
  EXPECT_EQ((*again)[0].kernels[0].device, image.device);
  // Launches that no device takes, and code of two kinds.
  const auto refused = [&](const auto& change) {
    Program wrong = f.program;
    change(wrong);
    const Program* list[] = {&wrong};
    return !save_artefact(path(), list).ok() || !load(path()).ok();
  };
  EXPECT_TRUE(refused([](Program& p) { p.kernels[0].device.threads = 2000; }));
  EXPECT_TRUE(refused([](Program& p) { p.kernels[0].device.blocks = int64_t{1} << 40; }));
  EXPECT_TRUE(refused([](Program& p) { p.kernels[0].device.cluster = 5; }));
  EXPECT_TRUE(refused([](Program& p) { p.kernels[0].device.shared_bytes = -1; }));
  EXPECT_TRUE(refused([](Program& p) { p.kernels[0].device.entry.clear(); }));
  EXPECT_TRUE(refused([](Program& p) { p.arch.clear(); }));
  // A call that its library does not take, and one that its buffers do not hold.
  for (const char* call : {"cublaslt", "cublaslt 1x2x2x3 f32 -> f32 a 0 n 3 0 b 1 n 2 0 c 2 n 2 0"})
    EXPECT_TRUE(refused([&](Program& p) { p.kernels[0].device.library_call = call; })) << call;
}

TEST_F(Artefact, ThatCannotBeWrittenLeavesNothing) {
  const Program program = rich(4).program;
  const Program* programs[] = {&program};
  const auto error = [&](const std::string& file) {
    const Status status = save_artefact(file, programs);
    EXPECT_FALSE(status.ok());
    return status.ok() ? std::string() : status.error().message;
  };
  EXPECT_THAT(error(path("no/such/folder.weft")), HasSubstr("No such file"));
  EXPECT_THAT(error(folder_), HasSubstr("not a regular file"));
  EXPECT_THAT(error("/dev/full"), HasSubstr("not a regular file"));
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(Artefact, FullDiskLeavesTheOldFile) {
  const Program program = rich(4).program;
  const Program* programs[] = {&program};
  write(path(), Bytes(3, std::byte{'o'}));
  // A limit on the size of files stands in for the disk.
  struct rlimit before{}, limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  limit = before;
  limit.rlim_cur = 1000;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const Status status = save_artefact(path(), programs);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidInput);
  EXPECT_THAT(status.error().message, HasSubstr("cannot write '" + path() + "'"));
  EXPECT_EQ(read(path()), Bytes(3, std::byte{'o'}));
  EXPECT_THAT(files(), ::testing::ElementsAre("m.weft"));
}

TEST_F(Artefact, ReplacesWhatALinkPointsTo) {
  const Program program = rich(4).program;
  const Program* programs[] = {&program};
  write(path("real"), Bytes(3));
  fs::create_symlink(path("real"), path("link"));
  ASSERT_TRUE(save_artefact(path("link"), programs).ok());
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_TRUE(load(path("real")).ok());
}

}  // namespace
}  // namespace weft::testing
