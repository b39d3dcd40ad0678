// XLA's side of the comparison: its CPU plugin driven through the PJRT C API, without Python.
//
// The environment variable PJRT_PLUGIN names the plugin; PJRT_DEVICES, 1 by default, how many devices it shall have.
#include <dlfcn.h>
#include <pjrt_c_api.h>

#include <cstdlib>
#include <iterator>
#include <sstream>
#include <utility>

#include "../serve.h"

namespace shoal::compare {
namespace {

using Buffers = std::vector<std::vector<PJRT_Buffer*>>;  // For each device.

const PJRT_Api* api;
PJRT_Client* client;
std::vector<PJRT_Device*> all_devices;

// Arguments of a function of the API, with their size set.
#define SHOAL_PJRT_ARGUMENTS(name, function) \
  PJRT_##function##_Args name{};             \
  name.struct_size = PJRT_##function##_Args_STRUCT_SIZE

void check(PJRT_Error* error) {
  if (error == nullptr) return;
  SHOAL_PJRT_ARGUMENTS(message, Error_Message);
  message.error = error;
  api->PJRT_Error_Message(&message);
  const std::string text(message.message, message.message_size);
  SHOAL_PJRT_ARGUMENTS(destroy, Error_Destroy);
  destroy.error = error;
  api->PJRT_Error_Destroy(&destroy);
  throw std::runtime_error(text);
}

void start() {
  const char* const plugin = std::getenv("PJRT_PLUGIN");
  void* const library = dlopen(plugin == nullptr ? "" : plugin, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  api = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"))();
  SHOAL_PJRT_ARGUMENTS(initialize, Plugin_Initialize);
  check(api->PJRT_Plugin_Initialize(&initialize));
  const char* const count = std::getenv("PJRT_DEVICES");
  const std::string option = "cpu_device_count";
  PJRT_NamedValue value{};
  value.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  value.name = option.data();
  value.name_size = option.size();
  value.type = PJRT_NamedValue_kInt64;
  value.int64_value = count == nullptr ? 1 : std::atoi(count);
  value.value_size = 1;
  SHOAL_PJRT_ARGUMENTS(create, Client_Create);
  create.create_options = &value;
  create.num_options = 1;
  check(api->PJRT_Client_Create(&create));
  client = create.client;
  SHOAL_PJRT_ARGUMENTS(addressable, Client_AddressableDevices);
  addressable.client = client;
  check(api->PJRT_Client_AddressableDevices(&addressable));
  all_devices.assign(addressable.addressable_devices,
                     addressable.addressable_devices + addressable.num_addressable_devices);
}

void wait_for(PJRT_Event* event) {
  SHOAL_PJRT_ARGUMENTS(await, Event_Await);
  await.event = event;
  check(api->PJRT_Event_Await(&await));
  SHOAL_PJRT_ARGUMENTS(destroy, Event_Destroy);
  destroy.event = event;
  check(api->PJRT_Event_Destroy(&destroy));
}

PJRT_Buffer* put(const void* data, PJRT_Buffer_Type type, const std::vector<std::int64_t>& shape, std::size_t device) {
  SHOAL_PJRT_ARGUMENTS(from_host, Client_BufferFromHostBuffer);
  from_host.client = client;
  from_host.data = data;
  from_host.type = type;
  from_host.dims = shape.data();
  from_host.num_dims = shape.size();
  from_host.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
  from_host.device = all_devices[device];
  check(api->PJRT_Client_BufferFromHostBuffer(&from_host));
  wait_for(from_host.done_with_host_buffer);
  return from_host.buffer;
}

void drop(PJRT_Buffer* buffer) {
  SHOAL_PJRT_ARGUMENTS(destroy, Buffer_Destroy);
  destroy.buffer = buffer;
  check(api->PJRT_Buffer_Destroy(&destroy));
}

void drop(const Buffers& buffers) {
  for (const auto& of_device : buffers) {
    for (PJRT_Buffer* const buffer : of_device) drop(buffer);
  }
}

void wait_for(const Buffers& buffers) {
  for (const auto& of_device : buffers) {
    SHOAL_PJRT_ARGUMENTS(ready, Buffer_ReadyEvent);
    ready.buffer = of_device[0];
    check(api->PJRT_Buffer_ReadyEvent(&ready));
    wait_for(ready.event);
  }
}

// The f32 elements of the first result: of the device at `device`, or of all, one after the other, for -1.
std::vector<float> elements_of(const Buffers& buffers, int device = -1) {
  std::vector<float> elements;
  for (std::size_t d = 0; d < buffers.size(); ++d) {
    if (device >= 0 && static_cast<std::size_t>(device) != d) continue;
    SHOAL_PJRT_ARGUMENTS(size, Buffer_ToHostBuffer);
    size.src = buffers[d][0];
    check(api->PJRT_Buffer_ToHostBuffer(&size));
    std::vector<float> part(size.dst_size / sizeof(float));
    SHOAL_PJRT_ARGUMENTS(to_host, Buffer_ToHostBuffer);
    to_host.src = buffers[d][0];
    to_host.dst = part.data();
    to_host.dst_size = part.size() * sizeof(float);
    check(api->PJRT_Buffer_ToHostBuffer(&to_host));
    wait_for(to_host.event);
    elements.insert(elements.end(), part.begin(), part.end());
  }
  return elements;
}

// ---- Programs.

// CompileOptionsProto in the wire format of protocol buffers, of which it takes few fields.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value | 128);
  return bytes + static_cast<char>(value);
}
std::string field(unsigned number, std::uint64_t value) { return varint(number << 3) + varint(value); }
std::string field(unsigned number, const std::string& bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
}

std::string options(std::uint64_t replicas, std::uint64_t partitions) {
  std::string assignment = field(1, replicas) + field(2, partitions);
  for (std::uint64_t p = 0; p < partitions; ++p) {
    std::string computation;
    for (std::uint64_t r = 0; r < replicas; ++r) computation += field(1, r * partitions + p);
    assignment += field(3, computation);
  }
  std::string build = field(4, replicas) + field(5, partitions);
  if (partitions > 1) build += field(6, 1);  // SPMD.
  return field(3, build + field(9, assignment));
}

class Program {
 public:
  Program(const std::string& module, std::size_t replicas, std::size_t partitions) : devices_(replicas * partitions) {
    if (devices_ > all_devices.size()) throw Unsupported("this client has too few devices");
    const std::string how = options(replicas, partitions), format = "mlir";
    std::string code = module;
    PJRT_Program program{};
    program.struct_size = PJRT_Program_STRUCT_SIZE;
    program.code = code.data();
    program.code_size = code.size();
    program.format = format.data();
    program.format_size = format.size();
    SHOAL_PJRT_ARGUMENTS(compile, Client_Compile);
    compile.client = client;
    compile.program = &program;
    compile.compile_options = how.data();
    compile.compile_options_size = how.size();
    check(api->PJRT_Client_Compile(&compile));
    executable_ = compile.executable;
  }
  ~Program() {
    SHOAL_PJRT_ARGUMENTS(destroy, LoadedExecutable_Destroy);
    destroy.executable = executable_;
    api->PJRT_LoadedExecutable_Destroy(&destroy);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Starts it, with one result for each device.
  Buffers operator()(const Buffers& arguments) const {
    Buffers results(devices_, std::vector<PJRT_Buffer*>(1));
    std::vector<PJRT_Buffer* const*> given;
    std::vector<PJRT_Buffer**> made;
    for (const auto& of_device : arguments) given.push_back(of_device.data());
    for (auto& of_device : results) made.push_back(of_device.data());
    PJRT_ExecuteOptions how{};
    how.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
    SHOAL_PJRT_ARGUMENTS(execute, LoadedExecutable_Execute);
    execute.executable = executable_;
    execute.options = &how;
    execute.argument_lists = given.data();
    execute.num_devices = devices_;
    execute.num_args = arguments[0].size();
    execute.output_lists = made.data();
    check(api->PJRT_LoadedExecutable_Execute(&execute));
    return results;
  }

 private:
  std::size_t devices_;
  PJRT_LoadedExecutable* executable_;
};

// ---- Modules, in StableHLO.

std::string tensor(std::int64_t count) { return "tensor<" + std::to_string(count) + "xf32>"; }

std::string constant(const std::string& name, const std::string& value, const std::string& type) {
  return "%" + name + " = stablehlo.constant dense<" + value + "> : " + type + "\n";
}
std::string apply(const std::string& result, const std::string& op, const std::string& operands,
                  const std::string& type) {
  return "%" + result + " = stablehlo." + op + " " + operands + " : " + type + "\n";
}

// A function of one vector that is split over `devices`.
std::string elementwise_module(const std::string& function, std::int64_t count, std::size_t devices, bool donated) {
  const std::string type = tensor(count), n = std::to_string(devices);
  const std::string split = devices > 1 ? "mhlo.sharding = \"{devices=[" + n + "]<=[" + n + "]}\"" : "";
  const std::string alias = donated ? "tf.aliasing_output = 0 : i32" : "";
  const std::string both = split + (split.empty() || alias.empty() ? "" : ", ") + alias;
  std::string body;
  if (function == "add_one") {
    body = constant("c", "1.0", type) + apply("r", "add", "%x, %c", type);
  } else if (function == "twice_plus_one") {
    body = constant("c", "2.0", type) + constant("d", "1.0", type) + apply("0", "multiply", "%x, %c", type) +
           apply("r", "add", "%0, %d", type);
  } else if (function == "sigmoid") {
    body = constant("h", "0.5", type) + constant("c", "1.0", type) + apply("0", "multiply", "%h, %x", type) +
           apply("1", "tanh", "%0", type) + apply("2", "add", "%1, %c", type) + apply("r", "multiply", "%h, %2", type);
  } else if (function == "axpb") {
    body = constant("c", "2.5", type) + constant("d", "1.25", type) + apply("0", "multiply", "%x, %c", type) +
           apply("r", "add", "%0, %d", type);
  } else if (function == "sin") {
    body = constant("c", "2.0", type) + constant("d", "1.0", type) + apply("0", "sine", "%x", type) +
           apply("1", "multiply", "%0, %c", type) + apply("r", "add", "%1, %d", type);
  } else {
    throw Unsupported("no module of " + function);
  }
  return "module @m attributes {mhlo.num_partitions = " + n +
         " : i32, mhlo.num_replicas = 1 : i32} {\nfunc.func public @main(%x: " + type +
         (both.empty() ? "" : " {" + both + "}") + ") -> (" + type + (split.empty() ? "" : " {" + split + "}") +
         ") {\n" + body + "return %r : " + type + "\n}\n}\n";
}

// The sum over eight replicas; scaled by 1/8 and with 0 x added for chains of calls that do not grow.
std::string all_reduce_module(std::int64_t count, bool chained) {
  const std::string type = tensor(count);
  std::string body =
      "%s = \"stablehlo.all_reduce\"(%x) ({\n^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
      "%t = stablehlo.add %a, %b : tensor<f32>\nstablehlo.return %t : tensor<f32>\n"
      "}) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>} : (" +
      type + ") -> " + type + "\n";
  if (chained) body += constant("c", "0.125", type) + apply("r", "multiply", "%s, %c", type);
  return "module @m attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 8 : i32} {\n"
         "func.func public @main(%x: " +
         type + ") -> " + type + " {\n" + body + "return %" + (chained ? "r" : "s") + " : " + type + "\n}\n}\n";
}

std::string matmul_module(std::int64_t n) {
  const std::string type = "tensor<" + std::to_string(n) + "x" + std::to_string(n) + "xf32>";
  return "module @m {\nfunc.func public @main(%x: " + type + ", %y: " + type + ") -> " + type +
         " {\n%r = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (" + type + ", " + type + ") -> " +
         type + "\nreturn %r : " + type + "\n}\n}\n";
}

// ---- Works.

std::size_t devices_of(const Json& request) { return request.value("devices", std::size_t{1}); }

Buffers split(const std::vector<float>& elements, std::size_t devices) {
  const std::size_t each = elements.size() / devices;
  Buffers buffers;
  for (std::size_t d = 0; d < devices; ++d) {
    buffers.push_back({put(elements.data() + d * each, PJRT_Buffer_Type_F32, {static_cast<std::int64_t>(each)}, d)});
  }
  return buffers;
}

// Each call takes the result of the one before. Collectives are `awaited` one by one: when several are under way, their
// threads may wait for each other for ever.
Json measure_calls(const Json& request, const Program& program, bool awaited = false) {
  const std::size_t devices = devices_of(request);
  const int batch = devices == 1 ? 1000 : 100;
  Buffers x = split(numbers(8), devices);
  const auto step = [&] {
    Buffers y = program(x);
    drop(x);
    x = std::move(y);
    if (awaited) wait_for(x);
  };
  step();
  wait_for(x);
  Json result{{"sample", sample(elements_of(x))}};
  result.update(measure(
      request,
      [&] {
        for (int i = 0; i < batch; ++i) step();
        wait_for(x);
      },
      batch));
  drop(x);
  return result;
}

Json call(const Json& request) {
  return measure_calls(request,
                       Program(elementwise_module("add_one", 8, devices_of(request), false), 1, devices_of(request)));
}

Json call_psum(const Json& request) { return measure_calls(request, Program(all_reduce_module(1, true), 8, 1), true); }

// Which device holds the result that is sampled: one for all (`whole`), or each a part.
Json measure_program(const Json& request, const Program& program, const Buffers& arguments, bool whole = false) {
  const Buffers first = program(arguments);
  wait_for(first);
  Json result{{"sample", sample(elements_of(first, whole ? 0 : -1))}};
  drop(first);
  result.update(measure(request, [&] {
    const Buffers y = program(arguments);
    wait_for(y);
    drop(y);
  }));
  drop(arguments);
  return result;
}

Json elementwise(const Json& request) {
  const std::int64_t count = request.at("mib").get<std::int64_t>() << 18;
  const bool donated = request.value("donated", false);
  const std::size_t devices = devices_of(request);
  const Program program(elementwise_module(request.at("function"), count, devices, donated), 1, devices);
  Buffers x = split(numbers(count), devices);
  if (!donated) return measure_program(request, program, x);
  const auto step = [&] {
    Buffers y = program(x);
    wait_for(y);
    drop(x);
    x = std::move(y);
  };
  step();
  Json result{{"sample", sample(elements_of(x))}};
  result.update(measure(request, step));
  drop(x);
  return result;
}

Json matmul(const Json& request) {
  if (request.value("dtype", "f32") != "f32" || devices_of(request) > 1) throw Unsupported("f32 on one device alone");
  const std::int64_t n = request.at("n");
  const std::vector<float> elements = numbers(n * n);
  const auto matrix = [&] { return put(elements.data(), PJRT_Buffer_Type_F32, {n, n}, 0); };
  return measure_program(request, Program(matmul_module(n), 1, 1), {{matrix(), matrix()}});
}

Json collective(const Json& request) {
  if (request.at("kind") != "psum") throw Unsupported("only psum");
  const std::int64_t count = request.at("bytes").get<std::int64_t>() / 4;
  return measure_program(request, Program(all_reduce_module(count, false), 8, 1), split(numbers(8 * count), 8), true);
}

Json first_result(const Json& request) {
  const std::size_t devices = devices_of(request);
  const Program program(elementwise_module("twice_plus_one", 64, devices, false), 1, devices);
  const Buffers y = program(split(numbers(64), devices));
  return {{"sample", sample(elements_of(y))}};
}

// The module that JAX lowered the GPT to, and the arguments it takes, in its order.
Json gpt(const Json& request) {
  const auto contents = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string base = request.at("module");
  const std::string bytes = contents(base + ".arguments");
  const double before = memory().mib;
  reset_peak();
  Buffers arguments(1);
  std::size_t at = 0;
  for (const Json& argument : Json::parse(contents(base + ".json"))) {
    const auto shape = argument.at("shape").get<std::vector<std::int64_t>>();
    arguments[0].push_back(put(
        bytes.data() + at, argument.at("dtype") == "int32" ? PJRT_Buffer_Type_S32 : PJRT_Buffer_Type_F32, shape, 0));
    std::size_t count = 4;
    for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    at += count;
  }
  const double begin = seconds_now();
  const Program program(contents(base + ".mlir"), 1, 1);
  const Buffers first = program(arguments);
  wait_for(first);
  const double compile = seconds_now() - begin;
  drop(first);
  Json result = measure_program(request, program, arguments);
  result["mib"] = memory().peak_mib - before;
  if (request.at("work") == "compile") result["seconds"] = compile;
  return result;
}

Json compile(const Json& request) {
  if (request.contains("trace")) throw Unsupported("not told apart from the first call");
  if (request.at("function") == "gpt") {
    if (request.contains("mesh")) throw Unsupported("one device alone");
    return gpt(request);
  }
  const Buffers x = split(numbers(1024), 1);
  const double begin = seconds_now();
  const Program program(elementwise_module(request.at("function"), 1024, 1, false), 1, 1);
  const Buffers y = program(x);
  wait_for(y);
  const double seconds = seconds_now() - begin;
  return {{"seconds", seconds}, {"sample", sample(elements_of(y))}};
}

}  // namespace
}  // namespace shoal::compare

int main(int argc, char** argv) {
  using namespace shoal::compare;
  try {
    start();
  } catch (const std::exception& error) {
    std::cerr << "pjrt: " << error.what() << '\n';
    return 1;
  }
  const int status = serve({{"first_result", first_result},
                            {"call", call},
                            {"call_psum", call_psum},
                            {"elementwise", elementwise},
                            {"matmul", matmul},
                            {"collective", collective},
                            {"gpt", gpt},
                            {"compile", compile}},
                           argc, argv);
  // The plugin's own threads may still run; it is not asked to tear down.
  std::_Exit(status);
}
