import {
  type ClassifyAndSwitchLlmAction,
  type ClassifyAndSwitchLlmObservation,
  classifyAndSwitchLlmAction,
  classifyAndSwitchLlmTool,
  invalidInput,
  type MetaProfile,
  metaProfile,
  profileName,
} from '@slipway/protocol'
import { parseJsonObject } from '@slipway/shared/json'
import type { ModelRouter } from '../core/model-router.ts'
import { defineOpenKindTool } from '../core/open-kind-tool.ts'
import { type ToolFactory, textBlock } from '../core/tool.ts'
import { ToolError } from '../core/tool-failure.ts'

interface Choice {
  readonly chosenClass: string | null
  /** An LLM profile; undefined: the model stays. */
  readonly profile: string | undefined
}

/**
 * Asks the classifier of a meta-profile and switches the conversation's model. Parameters:
 * `active_meta_profile`, the name of a saved one, and `meta_profile`, used when there is none of the name.
 * Throws a Problem for other values.
 */
export const openRouteTask: ToolFactory = ({ router }, params) => {
  const { name, fallback } = parseParams(params)
  return defineOpenKindTool<ClassifyAndSwitchLlmAction, ClassifyAndSwitchLlmObservation>({
    name: 'route_task_to_model',
    definition: classifyAndSwitchLlmTool,
    schema: classifyAndSwitchLlmAction,
    resources: () => ['model of the agent'],
    run: async (_, signal) => {
      const rule = (name === undefined ? undefined : await router?.findMetaProfile(name)) ?? fallback
      if (router === undefined || rule === undefined)
        throw new ToolError(`There is no meta-profile${name === undefined ? '' : ` '${name}'`}.`)
      const { chosenClass, profile } = await classify(rule, router, signal)
      const active = profile === undefined ? router.activeModel : await router.switchTo(profile)
      const text =
        profile === undefined
          ? `Nothing fits the task; the model stays ${active}.`
          : `The task is of the class '${chosenClass ?? 'default'}'. The next steps use the LLM profile '${profile}' (${active}).`
      return {
        content: [textBlock(text)],
        is_error: false,
        chosen_class: chosenClass,
        model: profile ?? null,
        active_model: active,
        kind: 'ClassifyAndSwitchLLMObservation',
      }
    },
    failureMembers: () => ({}),
  })
}

function parseParams({ active_meta_profile, meta_profile }: Readonly<Record<string, unknown>>) {
  const name = profileName.nullish().safeParse(active_meta_profile)
  if (!name.success) throw invalidInput(['params', 'active_meta_profile'], 'Input should be a name')
  const fallback = metaProfile.nullish().safeParse(meta_profile)
  if (!fallback.success) throw invalidInput(['params', 'meta_profile'], 'Input should be a meta-profile')
  return { name: name.data ?? undefined, fallback: fallback.data ?? undefined }
}

async function classify(rule: MetaProfile, router: ModelRouter, signal: AbortSignal): Promise<Choice> {
  const { classifier_model, classes, prompt_template: template } = rule
  const messages = router.recentMessages()
  const otherwise: Choice = { chosenClass: null, profile: rule.default_model }
  if (template === null) {
    const list = classes.map(({ description }, index) => `${index + 1}. ${description}`).join('\n')
    const system = `You choose the class that describes the task of a conversation best. The classes:\n\n${list}\n\nAnswer with the number of the class and nothing else; with 0 when none fits.`
    const prompt = `The newest messages of the conversation:\n\n${messages}\n\nThe number of the class:`
    const reply = await router.ask(classifier_model, { system, prompt }, signal)
    const chosen = classes[Number(/\d+/.exec(reply)?.[0] ?? 0) - 1]
    return chosen === undefined ? otherwise : { chosenClass: chosen.description, profile: chosen.model }
  }
  const values: Record<string, string> = { instance_text: messages, model_table: rule.model_table ?? '' }
  const prompt = template.replace(
    /\{\{\s*(instance_text|model_table)\s*\}\}/g,
    (_, key: string) => values[key] ?? '',
  )
  const system = 'You choose the model for a task. Answer as you are told, and with nothing else.'
  const profile = parseModel(await router.ask(classifier_model, { system, prompt }, signal))
  return profile === undefined ? otherwise : { chosenClass: `model: ${profile}`, profile }
}

/** The name of an LLM profile: the member `model` of a JSON object, or the whole answer. */
function parseModel(reply: string): string | undefined {
  const object = parseJsonObject(reply.slice(reply.indexOf('{'), reply.lastIndexOf('}') + 1))
  const name = profileName.safeParse(object === undefined ? reply.trim() : object.model)
  return name.success ? name.data : undefined
}
