# The shell that stays beside a sandbox, outside of its walls and limits, and needs no server. Arguments: folder of the
# sandbox, epoch, limits of open files and of file size in blocks ("-": none), number of cgroups, number of words of the
# network's command, PATH of the host, then the cgroups, the network's command, and the command. It writes its pid
# before it starts anything, keeps the output of the sandbox, and writes its exit code. The server may die at any line:
#
# - A start writes its epoch into the record and looks for supervisors of earlier epochs after that; a supervisor writes
#   its pid and reads the record after that. So the server finds the pid, or the supervisor finds another epoch and ends.
# - When the supervisor is killed, bubblewrap ends with its parent, and with it everything of the sandbox. The program
#   that connects its network is ended by a shell that reads the end of a fifo.
#
# Output goes through a fifo to a reader that begins a new file when one is full: bounded, also while no server runs.
root=$1 epoch=$2 files=$3 blocks=$4 groups=$5 words=$6 path=$PATH
PATH=$7
shift 7
umask 077
fail() { echo "125 $1" > "$root/exit.$epoch"; exit 125; }
if [ -r /proc/$$/stat ]; then read -r start < /proc/$$/stat; else start=$(ps -o lstart= -p $$); fi
printf '%s\n' "$$ $start" > "$root/pid.$epoch" || exit 125
read -r record < "$root/process.json" || fail 'it was removed before it began'
case $record in *"$epoch"*) ;; *) exit 125 ;; esac
mkfifo "$root/fifo.$epoch" || fail 'no fifo can be made for its output'
(
  exec < "$root/fifo.$epoch" 3<&- 4<&- 5<&-
  size=0
  mv -f "$root/output" "$root/output.1"
  while :; do
    # Where nothing can be written the output is read on, so that the program does not end by it.
    dd bs=4096 count=256 >> "$root/output" || { cat > /dev/null; break; }
    before=$size size=$(wc -c < "$root/output")
    [ "$size" -eq "$before" ] && break
    if [ "$size" -gt 524288 ]; then mv -f "$root/output" "$root/output.1"; size=0; : > "$root/output"; fi
  done
  : > "$root/drained.$epoch"
) &
exec > "$root/fifo.$epoch" 2>&1
rm -f "$root/fifo.$epoch"
join_groups() {
  left=$groups
  while [ "$left" -gt 0 ]; do
    echo 0 > "$1/cgroup.procs" || exit 125
    shift; left=$((left - 1))
  done
}
run() {
  join_groups "$@"
  shift $((groups + words))
  [ -w /proc/self/oom_score_adj ] && echo 500 > /proc/self/oom_score_adj 2> /dev/null
  ulimit -c 0
  # A lower hard limit that exists already holds too.
  [ "$files" = - ] || ulimit -n "$files" 2> /dev/null
  [ "$blocks" = - ] || ulimit -f "$blocks"
  umask 022
  PATH=$path
  exec "$@"
}
# Connects the network of the process `child`. The words of the command are rotated to the end, the others dropped.
connect() {
  join_groups "$@"
  shift "$groups"
  total=$# left=$words
  while [ "$left" -gt 0 ]; do set -- "$@" "$1"; shift; left=$((left - 1)); done
  shift $((total - words))
  for last; do :; done
  [ "$last" = --netns ] && child=/proc/self/fd/8
  program=$1
  shift
  exec "$program" --pid "$root/fifo.$epoch.pasta" "$@" "$child"
}
if [ "$words" -eq 0 ]; then
  (run "$@")
  code=$?
else
  info=$root/fifo.$epoch.info hold=$root/fifo.$epoch.hold child= seen=
  mkfifo "$info" "$hold" || fail 'no fifo can be made for its network'
  (run "$@") 6> "$info" 7>&6 &
  program=$!
  # Bubblewrap writes its pid in JSON and sets the loopback device up; then the program in its namespaces is ready.
  while [ "$seen" != .. ] && read -r name value; do
    case $name in '"child-pid":') child=${value%,} ;; '}' | ready) seen=$seen. ;; esac
  done < "$info"
  if [ "$seen" = .. ]; then
    (
      exec 3<&- 4<&- 5<&- 8< "/proc/$child/ns/net"
      connect "$@" &
      # Not reaped here, so its pid stays its own.
      network=$!
      exec > /dev/null 2>&1 8<&-
      read -r _ < "$hold"
      kill -9 "$network"
    ) &
    exec 9> "$hold"
  fi
  rm -f "$info" "$hold"
  wait "$program"
  code=$?
  # Ends the network too.
  exec 9>&-
fi
# Waits for the end of its output; a process that it left behind may keep the output open.
exec > /dev/null 2>&1
for i in 1 2 3 4 5 6 7 8 9 10; do
  [ -e "$root/drained.$epoch" ] && break
  sleep 0.1 || sleep 1
done
echo "$code" > "$root/exit.$epoch"
