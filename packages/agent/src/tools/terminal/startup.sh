__slipway_directory=@DIRECTORY@
__slipway_stty=$(builtin type -P stty)
unset MAILCHECK TMOUT HISTFILE
IGNOREEOF=100
set +o history
set +H
__slipway_load() {
  local code=$?
  __slipway_line=$1
  IFS= builtin read -r -d '' __slipway_command <"$__slipway_directory/command"
  return $code
}
__slipway_variables() {
  local code=$?
  __slipway_line=$1
  builtin . "$__slipway_directory/variables"
  return $code
}
__slipway_keep() {
  local code=$?
  unset PROMPT_COMMAND PROMPT_DIRTRIM PS0
  PROMPT_COMMAND='{ __slipway_prompt; } 2>/dev/null'
  PS1= PS2=
  set +euv -m
  return $code
}
__slipway_prompt() {
  local code=$? pid=-1 input=
  set +euv -m
  [ -z "$!" ] || pid=$!
  if [ "$PATH" != "$__slipway_path" ]; then
    __slipway_path=$PATH
    __slipway_python=$(builtin type -P python || builtin type -P python3)
  fi
  [ -z "$__slipway_stty" ] || "$__slipway_stty" sane -echo </dev/tty
  if [ "${BASH_VERSINFO[0]}" -ge 4 ]; then
    while builtin read -t 0 && builtin read -r -t 1 input; do :; done </dev/tty
  fi
  unset PROMPT_COMMAND PS0
  PROMPT_COMMAND='{ __slipway_prompt; } 2>/dev/null'
  PS1= PS2=
  builtin printf '\033]slipway;%s;%s\037%s\037%s\037%s\037%s;%s\007' @NONCE@ "$__slipway_line" "$code" "$pid" "$__slipway_python" "$PWD" @NONCE@ >/dev/tty
  __slipway_line=
  return $code
}
PROMPT_COMMAND='{ __slipway_prompt; } 2>/dev/null'
PS1= PS2=
