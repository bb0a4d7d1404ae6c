import {
  type InvokeSkillAction,
  type InvokeSkillObservation,
  invokeSkillAction,
  invokeSkillTool,
} from '@slipway/protocol'
import { defineOpenKindTool } from '../core/open-kind-tool.ts'
import { type ToolFactory, textBlock } from '../core/tool.ts'
import { ToolError } from '../core/tool-failure.ts'

/** The instructions of a skill by its name, also for agents that cannot read its file. */
export const openInvokeSkill: ToolFactory = ({ readSkill }) =>
  defineOpenKindTool<InvokeSkillAction, InvokeSkillObservation>({
    definition: invokeSkillTool,
    schema: invokeSkillAction,
    resources: () => [],
    run: async ({ name }) => {
      const found = readSkill?.(name.trim())
      if (found === undefined) throw new ToolError('There are no skills.')
      if ('issue' in found) throw new ToolError(found.issue)
      const content = [textBlock(found.text)]
      return { content, is_error: false, skill_name: name.trim(), kind: 'InvokeSkillObservation' }
    },
    failureMembers: ({ name }) => ({ skill_name: name.trim() }),
  })
