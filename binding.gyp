# node-gyp is only the doorbell: node-gyp-build and prebuildify ring it, CMake (through cmake-js)
# does the work. Sources and flags live in CMakeLists.txt. CMake gets a folder of its own because
# gyp has just written the Makefile it is being run from into build/.
{
  'targets': [{
    'target_name': 'hindsearch',
    'type': 'none',
    'actions': [{
      'action_name': 'cmake_js',
      'inputs': ['CMakeLists.txt'],
      'outputs': ['<(PRODUCT_DIR)/hindsearch.node'],
      'action': ['node', '<!(node -p "require.resolve(\'cmake-js/bin/cmake-js\')")', 'compile', '--out', 'build/cmake']
    }]
  }]
}
