# Installs the library from `build` to `work`, builds the project `example` against it, by find_package and by pkg-config,
# and runs what comes out.

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(failed)
    message(FATAL_ERROR "${ARGN}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(expect_result program)
  run(${program})
  if(NOT output MATCHES "the sum is 28.0 on 8 devices")
    message(FATAL_ERROR "${program} printed: ${output}")
  endif()
  # It finds the installed plugins, and not only those in the build folder.
  run(readelf -d ${program})
  if(NOT output MATCHES "${work}/prefix/[^]]*lib[^]]*/shoal")
    message(FATAL_ERROR "the search path of ${program} does not lead to the plugins: ${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${work})
run(${CMAKE_COMMAND} --install ${build} --prefix ${work}/prefix)

# The licences of what it contains are installed with it.
cmake_path(GET CMAKE_SCRIPT_MODE_FILE PARENT_PATH cmake_folder)
cmake_path(GET cmake_folder PARENT_PATH root)
file(GLOB licenses RELATIVE ${root} ${root}/licenses/*.txt)
if(NOT licenses)
  message(FATAL_ERROR "${root}/licenses is empty")
endif()
foreach(file IN LISTS licenses ITEMS LICENSE NOTICE)
  file(SHA256 ${root}/${file} hash)
  set(installed_hash)
  if(EXISTS ${work}/prefix/share/doc/shoal/${file})
    file(SHA256 ${work}/prefix/share/doc/shoal/${file} installed_hash)
  endif()
  if(NOT hash STREQUAL installed_hash)
    message(FATAL_ERROR "${file} is not installed to ${work}/prefix/share/doc/shoal")
  endif()
endforeach()

run(${CMAKE_COMMAND} -S ${example} -B ${work}/cmake -G ${generator} -D CMAKE_CXX_COMPILER=${compiler}
  -D CMAKE_PREFIX_PATH=${work}/prefix)
run(${CMAKE_COMMAND} --build ${work}/cmake)
expect_result(${work}/cmake/sum)

find_program(pkg_config pkg-config)
if(pkg_config)
  file(GLOB_RECURSE pc_file ${work}/prefix/shoal.pc)
  cmake_path(GET pc_file PARENT_PATH pc_folder)
  set(ENV{PKG_CONFIG_PATH} ${pc_folder})
  run(${pkg_config} --cflags --libs shoal)
  separate_arguments(flags UNIX_COMMAND "${output}")
  run(${compiler} ${example}/sum.cc ${flags} -o ${work}/sum)
  expect_result(${work}/sum)
endif()
