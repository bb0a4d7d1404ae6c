/**
 * Characters of a tool's output that the log keeps as its observation; `truncateOutput` saves a longer output
 * to a file. What the model sees is cut once more, to `max_message_chars` of the model (30,000 unless set):
 * `conversation/view/content-blocks.ts`.
 */
export const outputLimits = {
  apply_patch: 16_000,
  background_terminal: 30_000,
  browser: 50_000,
  /** One part of a page. */
  browser_get_content: 30_000,
  /** The reason of a failed call, of any tool. */
  failure: 16_000,
  file_editor: 16_000,
  grep: 30_000,
  list_directory: 50_000,
  mcp: 50_000,
  read_file: 50_000,
  task: 50_000,
  task_tracker: 50_000,
  terminal: 30_000,
  web_fetch: 30_000,
} as const
