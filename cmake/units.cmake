# Where UNITY_BUILD is on and UNITY_BUILD_MODE is GROUP, the files of a folder are compiled as one, which takes less than
# half the time.

set(files_in_unit 12)  # At most: with larger units one core would wait for the other at the end.

# Makes units of these files of one target: those of a folder, cut in parts where they are many.
function(group_by_folder)
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    cmake_path(REMOVE_FILENAME folder)
    string(MAKE_C_IDENTIFIER "${folder}" unit)
    math(EXPR count "0${count_${unit}} + 1")
    set(count_${unit} ${count})
    math(EXPR part "(${count} - 1) / ${files_in_unit}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${unit}${part})
  endforeach()
endfunction()
