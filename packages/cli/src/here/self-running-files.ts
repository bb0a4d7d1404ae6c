/** Files that editors, agents, git, shells and build tools run or load without asking. */
const selfRunning =
  /(?:^|\/)(?:\.(?:husky|githooks|devcontainer|idea|cursor|claude|openhands|slipway|agents|codex|gemini|zed|circleci)\/|\.vscode\/[^/]+\.json$|\.cargo\/config(?:\.toml)?$|\.github\/(?:workflows|actions)\/|\.(?:envrc|mcp\.json|npmrc|yarnrc(?:\.yml)?|pnpmfile\.cjs|gitattributes|gitmodules|gitlab-ci\.yml|pre-commit-config\.yaml|lefthook\.ya?ml|mise\.toml|exrc|vimrc|nvimrc|nvim\.lua|lvimrc|autoenv|bazelrc)$|(?:lefthook\.ya?ml|mise\.toml|sitecustomize\.py|conftest\.py|build\.rs|[^/]+\.code-workspace)$)/i

/** The paths among these whose change deserves a review before any program is started. */
export function selfRunningFiles(paths: readonly string[]): readonly string[] {
  return paths.filter((path) => selfRunning.test(path))
}
