// Checkpoints: what is written is what is read, and what does not fit is refused.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "native/core/error.h"
#include "native/test/checkpoint.h"
#include "native/test/random_model.h"
#include "native/test/testing.h"

namespace hindsearch {
namespace {

// An empty folder that goes away with its owner.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "hindsearch-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

constexpr const char* kHeader = "{\"not\": \"parsed here\"}  ";

std::vector<TensorSink> sinks(const Model& model, StorageType type, Arena arena = Arena::weights) {
  std::vector<TensorSink> result;
  for (const Parameter& parameter : model.layout().parameters()) {
    result.push_back({parameter.name, type, arena});
  }
  return result;
}

// Where save() puts them.
std::vector<TensorSource> sources(const Model& model, const std::string& path, StorageType type) {
  std::vector<TensorSource> result;
  std::uint64_t offset = 8 + std::string(kHeader).size();
  for (const Parameter& parameter : model.layout().parameters()) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(parameter.size) * storage_bytes(type);
    result.push_back({parameter.name, path, offset, bytes, type, parameter.shape});
    offset += bytes;
  }
  return result;
}

bool same_weights(const Model& a, const Model& b) {
  for (const Parameter& parameter : a.layout().parameters()) {
    if (a.weight(parameter.name) != b.weight(parameter.name)) return false;
  }
  return true;
}

struct Saved {
  TemporaryFolder folder;
  std::shared_ptr<Model> model =
      testing::random_model(testing::small_configs().back(), ComputeType::f32);
  std::string path = folder.file("model.bin");
  std::vector<TensorSource> list;

  explicit Saved(StorageType type = StorageType::f32) {
    model->save(path, kHeader, sinks(*model, type));
    list = sources(*model, path, type);
  }
  std::shared_ptr<Model> load() const {
    return Model::load(model->config(), ComputeType::f32, list);
  }
};

}  // namespace

TEST(f32_round_trip_is_exact) {
  const Saved saved;
  std::ifstream file(saved.path, std::ios::binary);
  std::uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), 8);
  CHECK_EQ(length, std::string(kHeader).size());
  std::string header(length, ' ');
  file.read(header.data(), static_cast<std::streamsize>(length));
  CHECK_EQ(header, kHeader);
  CHECK_EQ(std::filesystem::file_size(saved.path),
           8 + length + 4 * static_cast<std::uint64_t>(saved.model->layout().size()));
  CHECK(same_weights(*saved.load(), *saved.model));
}

TEST(narrow_round_trip_is_exact_after_the_first_rounding) {
  for (const StorageType type : {StorageType::f16, StorageType::bf16}) {
    const Saved saved(type);
    const auto rounded = saved.load();
    CHECK(!same_weights(*rounded, *saved.model));
    const std::string again = saved.folder.file("again.bin");
    rounded->save(again, kHeader, sinks(*rounded, type));
    const auto loaded =
        Model::load(rounded->config(), ComputeType::f32, sources(*rounded, again, type));
    CHECK(same_weights(*loaded, *rounded));
  }
}

TEST(checkpoints_that_do_not_fit_are_refused) {
  const Saved saved;
  const auto refused = [&](auto change, const char* part) {
    std::vector<TensorSource> list = saved.list;
    change(list);
    const std::string message = CHECK_ERROR(
        code::kInvalidCheckpoint, Model::load(saved.model->config(), ComputeType::f32, list));
    if (message.find(part) == std::string::npos) throw std::runtime_error("message: " + message);
  };
  using List = std::vector<TensorSource>;
  refused([](List& l) { l.pop_back(); }, "lm_head.weight is missing");
  refused([](List& l) { l.push_back(l[3]); }, "k_proj.weight is given twice");
  refused([](List& l) { l.push_back(l[3]), l.back().name = "model.extra"; }, "model.extra");
  refused([](List& l) { l[0].shape = {24, 41}; }, "has shape [24, 41], expected [41, 24]");
  refused([](List& l) { l[0].bytes -= 4; }, "3932 bytes, expected 3936");
  refused([](List& l) { l[0].type = StorageType::bf16; }, "bytes, expected");
  refused([](List& l) { l.back().offset += 1; }, "the file is incomplete");
  refused([](List& l) { l.back().offset = ~std::uint64_t{0} - 8; }, "the file is incomplete");
  refused([&](List& l) { l[0].path = std::filesystem::path(l[0].path).parent_path(); },
          "not a regular file");
  const std::string pipe = saved.folder.file("pipe");
  CHECK_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  refused([&](List& l) { l[0].path = pipe; }, "not a regular file");  // and does not hang

  List list = saved.list;
  list[0].path += ".absent";
  CHECK_ERROR(code::kIo, Model::load(saved.model->config(), ComputeType::f32, list));
}

TEST(failed_saves_leave_nothing_behind) {
  const Saved saved;
  const Model& model = *saved.model;
  const std::string path = saved.folder.file("new.bin");
  auto list = sinks(model, StorageType::f32);
  list.pop_back();
  CHECK_ERROR(code::kInvalidArgument, model.save(path, kHeader, list));
  list.push_back(list[0]);
  CHECK_ERROR(code::kInvalidArgument, model.save(path, kHeader, list));
  list.back().name = "model.extra";
  CHECK_ERROR(code::kInvalidArgument, model.save(path, kHeader, list));
  CHECK_ERROR(code::kInvalidArgument, model.save(path, kHeader, {}));
  CHECK_ERROR(code::kIo, model.save(saved.folder.file("no/such/folder"), kHeader,
                                    sinks(model, StorageType::f32)));
  const CancelFlag cancelled = true;
  CHECK_ERROR(code::kAborted,
              model.save(path, kHeader, sinks(model, StorageType::f32), &cancelled));
  CHECK(!std::filesystem::exists(path));
  if (std::filesystem::exists("/dev/full")) {  // a disk without space
    const std::string message =
        CHECK_ERROR(code::kIo, model.save("/dev/full", kHeader, sinks(model, StorageType::f32)));
    CHECK(message.find("No space left") != std::string::npos);
    CHECK(std::filesystem::exists("/dev/full"));
  }
}

TEST(weights_too_large_for_f16_are_refused) {
  const auto model = Model::initialize(testing::small_config(), ComputeType::f32, 1, 1e6f);
  const TemporaryFolder folder;
  const std::string message =
      CHECK_ERROR(code::kInvalidArgument,
                  model->save(folder.file("x"), kHeader, sinks(*model, StorageType::f16)));
  CHECK(message.find("too large for F16") != std::string::npos);
  CHECK(!std::filesystem::exists(folder.file("x")));
}

TEST(loading_an_arena_replaces_all_or_nothing) {
  const Saved saved;
  const auto model = Model::initialize(saved.model->config(), ComputeType::f32, 9);
  const auto snapshot = model->snapshot();
  const std::uint64_t version = model->version();
  std::vector<TensorSource> broken = saved.list;
  broken.pop_back();
  CHECK_ERROR(code::kInvalidCheckpoint, model->load_arena(Arena::weights, broken));
  CHECK_EQ(model->version(), version);
  CHECK(same_weights(*model, *snapshot));
  CHECK_ERROR(code::kInvalidArgument, snapshot->load_arena(Arena::weights, saved.list));
  model->load_arena(Arena::weights, saved.list);
  CHECK(model->version() > version);
  CHECK(same_weights(*model, *saved.model));
  CHECK(!same_weights(*snapshot, *saved.model));
  const ScoreOptions options{1, {1}, false};
  const PackedSequences packed = testing::pack({{1, 2, 3, 4}});
  CHECK(model->score(packed, options).log_probs == saved.model->score(packed, options).log_probs);
}

}  // namespace hindsearch
