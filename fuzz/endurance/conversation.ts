import { setTimeout as sleep } from 'node:timers/promises'
import { asRecord } from '@slipway/shared/json'
import { type AgentDriver, findLogIssues } from '../../conformance/support/agent-driver.ts'
import { Random } from './random.ts'
import type { RandomProvider } from './random-provider.ts'

/** A server that may be killed at any time, and starts again. */
export interface KilledServer {
  readonly driver: AgentDriver
  /** Resolves when it runs. */
  ready(): Promise<void>
}

export const verbs = ['message', 'quick message', 'switch', 'fork', 'condense', 'interrupt', 'pause'] as const
export type Verb = (typeof verbs)[number]

/** How a conversation went. */
export interface ConversationOutcome {
  readonly number: number
  readonly id: string
  readonly models: readonly string[]
  readonly did: readonly Verb[]
  /** Statuses in which its runs ended. */
  readonly ends: readonly string[]
  /** Undefined when its last message was answered and its log is whole. */
  readonly death: string | undefined
}

interface Options {
  readonly number: number
  readonly seed: number
  readonly provider: RandomProvider
  /** The models of its user. */
  readonly models: readonly string[]
  readonly server: KilledServer
}

const maxTries = 40

/** A conversation of a random user with random models. */
export class RandomConversation {
  readonly #options: Options
  readonly #random: Random
  readonly #did: Verb[] = []
  readonly #models: string[] = []
  readonly #ends: string[] = []
  #id = ''

  constructor(options: Options) {
    this.#options = options
    this.#random = new Random(options.seed, options.number, 0x5eed)
  }

  async run(): Promise<ConversationOutcome> {
    let death: string | undefined
    try {
      await this.#create()
      for (let steps = 1 + this.#random.below(5); steps > 0; steps--) {
        const verb = steps === 1 ? 'message' : this.#random.pick(verbs)
        this.#did.push(verb)
        await this.#do(verb)
        const wrong = await this.#endOfRun()
        if (wrong !== undefined) death ??= wrong
      }
      death ??= await this.#close()
    } catch (error) {
      death ??= String(error)
    }
    const { number } = this.#options
    return { number, id: this.#id, models: this.#models, did: this.#did, ends: this.#ends, death }
  }

  #llm(): object {
    const { provider, number } = this.#options
    const model = this.#random.pick(this.#options.models)
    this.#models.push(model)
    return provider.llm(number, model, this.#random)
  }

  async #create(): Promise<void> {
    const condenser = { kind: 'LLMSummarizingCondenser', max_size: 14, keep_first: 2 }
    const agent = {
      llm: this.#llm(),
      tool_concurrency_limit: 1 + this.#random.below(3),
      ...(this.#random.isTrue(0.5) && { condenser }),
    }
    const request = { max_iterations: 30, initial_message: { content: [{ type: 'text', text: 'Begin.' }] } }
    const { id } = await this.#patiently((driver) => driver.create(agent, request))
    this.#id = id
    const wrong = await this.#endOfRun()
    if (wrong !== undefined) throw new Error(wrong)
  }

  async #do(verb: Verb): Promise<void> {
    const random = this.#random
    const post = async (path: string, body?: object) =>
      await this.#patiently(async (driver) => await driver.post(this.#id, path, body))
    switch (verb) {
      case 'message':
        return await this.#say(`Message ${this.#did.length}.`)
      case 'quick message':
        await this.#say(`Message ${this.#did.length}.`)
        await sleep(random.below(30))
        return await this.#say('And this.')
      case 'switch':
        await post('switch_llm', { llm: this.#llm() })
        return await this.#say('Continue with this model.')
      case 'fork': {
        const events = await this.#patiently((driver) => driver.getEvents(this.#id))
        const from = random.isTrue(0.5) ? undefined : events[random.below(events.length)]?.id
        const { body } = await post('fork', from === undefined ? {} : { from_event_id: from })
        const { id } = asRecord(body)
        if (typeof id === 'string') this.#id = id
        return await this.#say('Continue from here.')
      }
      case 'condense':
        await post('condense')
        return
      default:
        await this.#say(`Message ${this.#did.length}.`)
        await sleep(random.below(60))
        await post(verb)
    }
  }

  async #say(text: string): Promise<void> {
    await this.#patiently((driver) => driver.sendMessage(this.#id, text))
  }

  /** What is wrong with the end of a run. An answer is never blank and always one of the model's. */
  async #endOfRun(): Promise<string | undefined> {
    await this.#patiently((driver) => driver.waitUntilIdle(this.#id))
    const { status, answer } = await this.#patiently(async (driver) => {
      const { execution_status } = await driver.getInfo(this.#id)
      const { body } = await driver.api.requestJson(`/api/conversations/${this.#id}/agent_final_response`)
      return { status: execution_status, answer: asRecord(body).response }
    })
    this.#ends.push(status)
    if (status !== 'finished') return undefined
    const { provider, number } = this.#options
    const isKnown = typeof answer === 'string' && provider.hasSaid(number, answer)
    return isKnown ? undefined : `a run has ended with the answer ${JSON.stringify(answer)}`
  }

  /** Its last message, which has to be answered. */
  async #close(): Promise<string | undefined> {
    const { provider, number } = this.#options
    const expected = provider.close(number)
    // A kill in the last run cuts it: the message is sent again, as its user would do.
    for (let tries = 0; tries < 3; tries++) {
      await this.#say('To the end.')
      const events = await this.#patiently((driver) => driver.waitUntilIdle(this.#id))
      const { execution_status } = await this.#patiently((driver) => driver.getInfo(this.#id))
      this.#ends.push(execution_status)
      const errors = events.filter(({ kind }) => kind === 'ConversationErrorEvent')
      const last = asRecord(errors.at(-1))
      if (execution_status === 'error' && last.code === 'RunCutByRestart') continue
      if (execution_status === 'paused') continue
      if (execution_status !== 'finished')
        return `the last message ended in ${execution_status}: ${String(last.code)} ${String(last.detail)}`
      const { body } = await this.#patiently((driver) =>
        driver.api.requestJson(`/api/conversations/${this.#id}/agent_final_response`),
      )
      const { response } = asRecord(body)
      if (response !== expected) return `the last message was answered with ${JSON.stringify(response)}`
      const [issue] = findLogIssues(await this.#patiently((driver) => driver.getEvents(this.#id)))
      return issue
    }
    return 'the last message was cut three times'
  }

  /** Again after a kill of the server. */
  async #patiently<T>(call: (driver: AgentDriver) => Promise<T>): Promise<T> {
    const { server } = this.#options
    for (let tries = 1; ; tries++) {
      await server.ready()
      try {
        return await call(server.driver)
      } catch (error) {
        const isBroken = error instanceof TypeError || error instanceof SyntaxError
        if (!isBroken || tries === maxTries) throw error
        await sleep(25)
      }
    }
  }
}
