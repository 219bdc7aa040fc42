#!/bin/sh
# keep_report.sh <compiler> <argument>...: compiles, and keeps what ptxas says of the kernels in a file
# beside the object file; everything else that the compiler says goes where it always goes.
previous= object=
for argument; do
  [ "$previous" = -o ] && object=$argument
  previous=$argument
done
"$@" 2>"$object.ptxas"
status=$?
grep -v -e '^ptxas info' -e '^    [0-9]* bytes stack frame' "$object.ptxas" >&2
exit $status
