import { resolve } from 'node:path'
import { defineTool } from '../core/define-tool.ts'
import type { ToolFactory } from '../core/tool.ts'
import { FileEditor, failedEditorResult } from './editor.ts'

/** Views, creates and edits files by absolute path; the last ten edits of each file can be undone. */
export const openFileEditor: ToolFactory = (context) => {
  const editor = new FileEditor(context)
  return [
    defineTool({
      directory: import.meta.dirname,
      tool: 'FileEditorTool',
      action: 'FileEditorAction',
      observation: 'FileEditorObservation',
      resources: ({ path }) => [`file:${resolve(context.workspace.directory, path)}`],
      run: async (action, signal) => ({
        ...(await editor.run(action, signal)),
        kind: 'FileEditorObservation',
      }),
      failureMembers: failedEditorResult,
    }),
  ]
}
