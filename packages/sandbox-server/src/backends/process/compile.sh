# Ends the program gracefully at the end of its input, also when the server dies: then Node writes what it compiled.
exec 3<&0
"$@" 3<&- &
program=$!
(exec 1>&-; read -r _ <&3; kill -TERM $program) &
reader=$!
wait $program
code=$?
kill $reader
exit $code
