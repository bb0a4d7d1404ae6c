import * as z from 'zod'
import * as browser from './browser.ts'
import { fileEditor, fileEditorAction, fileEditorObservation, fileEditorTool } from './file-editor.ts'
import * as files from './files.ts'
import { finish, finishAction, finishObservation, finishTool } from './finish.ts'
import { glob, globAction, globObservation, globTool } from './glob.ts'
import { grep, grepAction, grepObservation, grepTool } from './grep.ts'
import { mcpToolAction, mcpToolDefinition, mcpToolObservation } from './mcp.ts'
import {
  planningFileEditor,
  planningFileEditorAction,
  planningFileEditorObservation,
  planningFileEditorTool,
} from './planning-file-editor.ts'
import { taskTracker, taskTrackerAction, taskTrackerObservation, taskTrackerTool } from './task-tracker.ts'
import { terminal, terminalAction, terminalObservation, terminalTool } from './terminal.ts'
import { think, thinkAction, thinkObservation, thinkTool } from './think.ts'
import type { BuiltInTool } from './tool.ts'

/** The 28 actions (spec 2.5). */
export const action = z
  .discriminatedUnion('kind', [
    mcpToolAction,
    finishAction,
    thinkAction,
    browser.browserAction,
    browser.browserClickAction,
    browser.browserCloseTabAction,
    browser.browserGetContentAction,
    browser.browserGetStateAction,
    browser.browserGetStorageAction,
    browser.browserGoBackAction,
    browser.browserListTabsAction,
    browser.browserNavigateAction,
    browser.browserScrollAction,
    browser.browserSetStorageAction,
    browser.browserStartRecordingAction,
    browser.browserStopRecordingAction,
    browser.browserSwitchTabAction,
    browser.browserTypeAction,
    fileEditorAction,
    files.editAction,
    files.listDirectoryAction,
    files.readFileAction,
    files.writeFileAction,
    globAction,
    grepAction,
    planningFileEditorAction,
    taskTrackerAction,
    terminalAction,
  ])
  .meta({ id: 'Action' })
export type Action = z.infer<typeof action>

/** The 14 observations (spec 2.6). */
export const observation = z
  .discriminatedUnion('kind', [
    mcpToolObservation,
    finishObservation,
    thinkObservation,
    browser.browserObservation,
    fileEditorObservation,
    files.editObservation,
    files.listDirectoryObservation,
    files.readFileObservation,
    files.writeFileObservation,
    globObservation,
    grepObservation,
    planningFileEditorObservation,
    taskTrackerObservation,
    terminalObservation,
  ])
  .meta({ id: 'Observation' })
export type Observation = z.infer<typeof observation>

/** The 28 tool definitions (spec 2.6). */
export const toolDefinition = z
  .discriminatedUnion('kind', [
    mcpToolDefinition,
    finishTool,
    thinkTool,
    browser.browserClickTool,
    browser.browserCloseTabTool,
    browser.browserGetContentTool,
    browser.browserGetStateTool,
    browser.browserGetStorageTool,
    browser.browserGoBackTool,
    browser.browserListTabsTool,
    browser.browserNavigateTool,
    browser.browserScrollTool,
    browser.browserSetStorageTool,
    browser.browserStartRecordingTool,
    browser.browserStopRecordingTool,
    browser.browserSwitchTabTool,
    browser.browserToolSet,
    browser.browserTypeTool,
    fileEditorTool,
    files.editTool,
    files.listDirectoryTool,
    files.readFileTool,
    files.writeFileTool,
    globTool,
    grepTool,
    planningFileEditorTool,
    taskTrackerTool,
    terminalTool,
  ])
  .meta({ id: 'ToolDefinition' })
export type ToolDefinition = z.infer<typeof toolDefinition>

/** Every tool of ours as a SystemPromptEvent lists it, by kind. MCP tools are described by their own server. */
export const toolDefinitions: {
  readonly [K in Exclude<ToolDefinition['kind'], 'MCPToolDefinition'>]: BuiltInTool<K>
} = {
  FinishTool: finish,
  ThinkTool: think,
  ...browser.browserTools,
  FileEditorTool: fileEditor,
  EditTool: files.edit,
  ListDirectoryTool: files.listDirectory,
  ReadFileTool: files.readFile,
  WriteFileTool: files.writeFile,
  GlobTool: glob,
  GrepTool: grep,
  PlanningFileEditorTool: planningFileEditor,
  TaskTrackerTool: taskTracker,
  TerminalTool: terminal,
}
