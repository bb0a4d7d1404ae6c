/** What a call is meant to do; the test says how that is seen. */
export type Meant =
  | 'say'
  | 'say in src'
  | 'view'
  | 'view part'
  | 'list'
  | 'edit'
  | 'edit all'
  | 'create'
  | 'insert'
  | 'grep'
  | 'glob'
  | 'plan'
  | 'finish'
  | 'patch'
  | 'rename'

/** `editor`: the default tools; `single`: one tool for each operation; `patch`: patches. */
type ToolSet = 'editor' | 'single' | 'patch'

/**
 * `args`: an object, or the text as a model wrote it. `$W` stands for the workspace, `$P` for a patch that
 * changes `src/a.ts` as `edit` does.
 */
export type MalformedCall = readonly [tools: ToolSet, name: string, args: object | string, meant: Meant]
