#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/program.h"
#include "support/result.h"

namespace weft {

/// A file that holds compiled programs with their code and constants, and needs nothing but the
/// runtime to run. Layout, little-endian:
///
///     header      magic, version, byte order, file size; offset, size, hash of the parts; own hash
///     programs    program_codec.h
///     constants   each at a multiple of 64, used in place from the mapped file
///
/// It may hold several programs of one model, for different shapes of the inputs and for processors
/// with and without some features.
inline constexpr uint32_t kArtefactVersion = 9;

/// Whether a file that starts with these bytes claims to be an artefact.
bool is_artefact(std::span<const std::byte> start);

/// Writes `programs` under `path`, which appears complete or not at all. Kernels and constants that
/// programs share are stored once. kInvalidInput when the file cannot be written or a program does
/// not verify.
Status save_artefact(const std::string& path, std::span<const Program* const> programs);

struct ArtefactOptions {
  /// Hash the constants too. Without it only what refers to them is checked, and a model of many
  /// gigabytes is ready before it is read; damage in the weights then shows in the results alone.
  bool verify_constants = true;
  /// Programs that this machine cannot run are no error: to look at them only.
  bool any_features = false;
};

/// The programs of a file, verified; their constants are views of the mapped file. Of several for
/// the same shapes the one that uses most of the processor's features, and none that needs others.
///
/// `features` are those of the processor, as in Target::features, sorted. Errors: kInvalidInput for
/// a file that is no artefact, of another version, truncated or damaged; kMissingDevice when the
/// code needs features that are not among `features`, naming them.
Result<std::vector<Program>> load_artefact(const std::string& path,
                                           std::span<const std::string> features,
                                           const ArtefactOptions& options = {});

/// The same of a file's bytes in memory, at an address that is a multiple of 64; `owner` keeps them
/// alive, `name` stands for the path in errors.
Result<std::vector<Program>> parse_artefact(const std::shared_ptr<const void>& owner,
                                            std::span<const std::byte> file,
                                            const std::string& name,
                                            std::span<const std::string> features,
                                            const ArtefactOptions& options = {});

/// The program whose inputs have these shapes; the error lists what there is.
Result<size_t> find_program(std::span<const Program* const> programs,
                            std::span<const std::span<const int64_t>> input_shapes);

/// kMissingDevice naming the features that `program` needs and `features` lacks.
Status check_features(const Program& program, std::span<const std::string> features);

}  // namespace weft
