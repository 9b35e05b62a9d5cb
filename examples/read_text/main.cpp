// Reads the text in pictures with a text recogniser: a picture in, words out, through weft's public
// interface alone.
//
//     read_text MODEL.onnx PICTURE.png...
//
// MODEL is PP-OCRv4's recogniser (input x: f32[1,3,48,W], BGR in -1..1; output: for each of W/8
// positions the probability of each character, number 0 meaning none). Its characters are in the
// model file's metadata.

#include <png.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "weft/weft.h"

namespace {

constexpr int64_t kHeight = 48;

struct Picture {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> bgr;
};

bool load_png(const char* path, Picture* picture) {
  png_image image;
  std::memset(&image, 0, sizeof image);
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_file(&image, path) == 0) {
    std::fprintf(stderr, "read_text: %s: %s\n", path, image.message);
    return false;
  }
  image.format = PNG_FORMAT_BGR;
  picture->height = image.height;
  picture->width = image.width;
  picture->bgr.resize(PNG_IMAGE_SIZE(image));
  if (png_image_finish_read(&image, nullptr, picture->bgr.data(), 0, nullptr) == 0) {
    std::fprintf(stderr, "read_text: %s: %s\n", path, image.message);
    return false;
  }
  return true;
}

/// The picture at height 48, interpolated, as the model's tensor [1,3,48,W]; W is a multiple of 32,
/// the rest is grey.
std::vector<float> to_tensor(const Picture& p, int64_t* width) {
  const double scale = static_cast<double>(p.height) / kHeight;
  const auto used =
      std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(p.width) / scale));
  *width = (used + 31) / 32 * 32;
  std::vector<float> x(static_cast<size_t>(3 * kHeight * *width), 0.0F);
  const auto pixel = [&](int64_t row, int64_t column, int64_t channel) {
    row = std::clamp<int64_t>(row, 0, p.height - 1);
    column = std::clamp<int64_t>(column, 0, p.width - 1);
    return static_cast<double>(p.bgr[static_cast<size_t>((row * p.width + column) * 3 + channel)]);
  };
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t h = 0; h < kHeight; ++h) {
      const double y = (static_cast<double>(h) + 0.5) * scale - 0.5;
      const auto y0 = static_cast<int64_t>(y < 0 ? y - 1 : y);
      for (int64_t w = 0; w < used; ++w) {
        const double fx = (static_cast<double>(w) + 0.5) * scale - 0.5;
        const auto x0 = static_cast<int64_t>(fx < 0 ? fx - 1 : fx);
        const double a = y - static_cast<double>(y0), b = fx - static_cast<double>(x0);
        const double v = (1 - a) * ((1 - b) * pixel(y0, x0, c) + b * pixel(y0, x0 + 1, c)) +
                         a * ((1 - b) * pixel(y0 + 1, x0, c) + b * pixel(y0 + 1, x0 + 1, c));
        x[static_cast<size_t>((c * kHeight + h) * *width + w)] = static_cast<float>(v / 127.5 - 1);
      }
    }
  }
  return x;
}

/// The likeliest character at each position, runs of the same one counted once, "none" left out.
std::string decode(const std::vector<float>& scores, int64_t positions, int64_t classes,
                   const std::vector<std::string>& characters) {
  std::string text;
  int64_t last = 0;
  for (int64_t t = 0; t < positions; ++t) {
    const auto row = scores.begin() + t * classes;
    const int64_t best = std::max_element(row, row + classes) - row;
    if (best != 0 && best != last) {
      // Behind the characters of the file stands the space.
      text += static_cast<size_t>(best) <= characters.size()
                  ? characters[static_cast<size_t>(best) - 1]
                  : " ";
    }
    last = best;
  }
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: read_text MODEL.onnx PICTURE.png...\n");
    return 2;
  }
  std::map<int64_t, weft::Executable> compiled;  // one for each width
  for (int i = 2; i < argc; ++i) {
    Picture picture;
    if (!load_png(argv[i], &picture)) return 2;
    int64_t width = 0;
    const std::vector<float> x = to_tensor(picture, &width);
    const int64_t shape[] = {1, 3, kHeight, width};

    if (compiled.find(width) == compiled.end()) {
      weft::CompileOptions options;
      options.shapes["x"] = {1, 3, kHeight, width};
      auto model = weft::compile(argv[1], options);
      if (!model) {
        std::fprintf(stderr, "read_text: %s\n", model.error().message.c_str());
        return static_cast<int>(model.error().code);
      }
      compiled.emplace(width, *model);
    }
    const weft::Executable& model = compiled.at(width);
    auto context = model.new_context();
    if (!context) return static_cast<int>(context.error().code);

    const std::vector<int64_t>& scores_shape = model.outputs()[0].shape;  // [1, positions, classes]
    std::vector<float> scores(static_cast<size_t>(scores_shape[1] * scores_shape[2]));
    const auto start = std::chrono::steady_clock::now();
    const weft::Status done =
        context->run({{weft::input(x, shape)}}, {{weft::output(scores, scores_shape)}});
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - start;
    if (!done) {
      std::fprintf(stderr, "read_text: %s\n", done.error().message.c_str());
      return static_cast<int>(done.error().code);
    }
    const auto characters = model.metadata().find("character");
    const std::vector<std::string> names =
        lines_of(characters == model.metadata().end() ? "" : characters->second);
    std::printf("%s: \"%s\" (%.1f ms, %ld kernels)\n", argv[i],
                decode(scores, scores_shape[1], scores_shape[2], names).c_str(), spent.count(),
                static_cast<long>(model.kernel_count()));
  }
  return 0;
}
