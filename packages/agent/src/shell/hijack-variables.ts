/** Variables that make another program run the caller's code. */
export const hijackVariables =
  /^(?:LD_PRELOAD|LD_LIBRARY_PATH|LD_AUDIT|DYLD_\w+|BASH_ENV|ENV|PROMPT_COMMAND|SHELLOPTS|PS4|GIT_(?:SSH|SSH_COMMAND|CONFIG\w*|EDITOR|SEQUENCE_EDITOR|PAGER|EXTERNAL_DIFF|ASKPASS|PROXY_COMMAND|EXEC_PATH|TEMPLATE_DIR)|SSH_ASKPASS|EDITOR|VISUAL|PAGER|MANPAGER|LESSOPEN|LESSCLOSE|BROWSER|PERL5OPT|PERL5DB|RUBYOPT|NODE_OPTIONS|PYTHONSTARTUP|JAVA_TOOL_OPTIONS|JDK_JAVA_OPTIONS|_JAVA_OPTIONS|RUSTC_WRAPPER|TAR_OPTIONS|RSYNC_RSH|npm_config_script_shell)$/

/** Whether a variable can make another program run code. */
export function mayRunCode(name: string): boolean {
  return name === 'PATH' || hijackVariables.test(name)
}
