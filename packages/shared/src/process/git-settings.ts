/**
 * For untrusted repositories: no program that one names may run, nothing is fetched (as a partial clone
 * would), nothing is locked or written, and no repository hides in the files of another.
 */
export const untrustedGitSettings: readonly (readonly [string, string])[] = [
  ['core.quotepath', 'off'],
  ['core.fsmonitor', 'false'],
  ['core.hooksPath', '/dev/null'],
  ['core.pager', 'cat'],
  ['log.showSignature', 'false'],
  ['i18n.logOutputEncoding', 'UTF-8'],
  ['safe.directory', '*'],
  ['safe.bareRepository', 'explicit'],
  ['diff.ignoreSubmodules', 'dirty'],
]

export const untrustedGitEnvironment: Readonly<Record<string, string>> = {
  LC_ALL: 'C',
  GIT_OPTIONAL_LOCKS: '0',
  GIT_TERMINAL_PROMPT: '0',
  GIT_NO_LAZY_FETCH: '1',
  GIT_ALLOW_PROTOCOL: 'none',
}

/** Settings for one call, as variables: values may contain characters that arguments cannot. */
export function gitConfigEnvironment(pairs: readonly (readonly [string, string])[]): Record<string, string> {
  const entries = pairs.flatMap(([name, value], index) => [
    [`GIT_CONFIG_KEY_${index}`, name],
    [`GIT_CONFIG_VALUE_${index}`, value],
  ])
  return { GIT_CONFIG_COUNT: String(pairs.length), ...Object.fromEntries(entries) }
}
