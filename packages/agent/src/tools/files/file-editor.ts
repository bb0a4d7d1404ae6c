import { resolve } from 'node:path'
import { ownTool } from '../core/define-tool.ts'
import type { OpenTools } from '../core/tool.ts'
import { Editor, notDone } from './editor.ts'

/** Views, creates and edits files by absolute path; the last ten edits of each file can be undone, after a restart too. */
export const openFileEditor: OpenTools = (context) => {
  const editor = new Editor(context)
  return [
    ownTool({
      directory: import.meta.dirname,
      tool: 'FileEditorTool',
      action: 'FileEditorAction',
      observation: 'FileEditorObservation',
      resources: ({ path }) => [`file:${resolve(context.workspace.directory, path)}`],
      run: async (action, signal) => ({
        ...(await editor.run(action, signal)),
        kind: 'FileEditorObservation',
      }),
      failed: notDone,
    }),
  ]
}
