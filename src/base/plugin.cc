#include "base/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/at_exit.h"
#include "base/env.h"
#include "base/log.h"

namespace shoal {
namespace {

// The folder of the library or program that holds this function.
std::string own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return ".";
  const std::string path = info.dli_fname;
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::vector<std::string> candidates(const std::string& file) {
  if (const auto folder = env_text("SHOAL_PLUGIN_PATH")) return {*folder + "/" + file};
  const std::string own = own_folder();
  // By its bare name it is found where the program's own search path leads.
  return {own + "/shoal/" + file, own + "/../lib/shoal/" + file, SHOAL_PLUGIN_FOLDER "/" + file, file};
}

const void* open_plugin(const std::string& name, std::uint64_t version, std::string* why) {
  using Entry = const void* (*)(std::uint64_t);
  std::vector<std::string> failures;
  for (const std::string& path : candidates("libshoal_" + name + ".so")) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      failures.emplace_back(dlerror());
      continue;
    }
    const auto entry = reinterpret_cast<Entry>(dlsym(library, ("shoal_plugin_" + name).c_str()));
    const void* table = entry == nullptr ? nullptr : entry(version);
    if (table != nullptr) {
      keep_until_finished();
      return table;  // Never closed: what it made lives as long as the process.
    }
    failures.push_back(path + ": belongs to another version of Shoal");
    dlclose(library);
  }
  const std::string all = fmt::format("{}", fmt::join(failures, "; "));
  constexpr std::string_view kRemedy = "set SHOAL_PLUGIN_PATH to the folder that holds it";
  if (why != nullptr) {
    *why = fmt::format("the plugin '{}' cannot be loaded: {}; {}", name, all, kRemedy);
  } else {
    log_warning(
        fmt::format("the plugin '{}' cannot be loaded, and slower code takes its place: {}; {}", name, all, kRemedy));
  }
  return nullptr;
}

}  // namespace

const void* load_plugin(std::string_view name, std::uint64_t version, std::string* why) {
  static std::mutex mutex;
  static auto& loaded = *new std::map<std::string, const void*>;
  const std::lock_guard lock(mutex);
  const auto found = loaded.find(std::string(name));
  if (found != loaded.end()) return found->second;
  return loaded.emplace(std::string(name), open_plugin(std::string(name), version, why)).first->second;
}

}  // namespace shoal
