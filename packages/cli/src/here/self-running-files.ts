/** Files that editors, git, shells and package managers run or obey without being asked. */
const selfRunning =
  /(?:^|\/)(?:\.(?:husky|githooks|devcontainer|idea|cursor|claude|openhands|slipway|agents|circleci)\/|\.vscode\/[^/]+\.json$|\.github\/(?:workflows|actions)\/|\.(?:envrc|mcp\.json|npmrc|yarnrc(?:\.yml)?|pnpmfile\.cjs|gitattributes|gitmodules|gitlab-ci\.yml|pre-commit-config\.yaml|lefthook\.ya?ml|mise\.toml|exrc|nvimrc|lvimrc|autoenv)$|(?:lefthook\.ya?ml|mise\.toml|sitecustomize\.py|conftest\.py)$)/i

/** The paths among these that run by themselves, so that their change deserves a look before it is used. */
export function selfRunningFiles(paths: readonly string[]): readonly string[] {
  return paths.filter((path) => selfRunning.test(path))
}
