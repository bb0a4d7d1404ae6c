import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** The kinds of tests that take longest, by their suffix. */
const longest = ['.crash.', '.sandbox.', '.docker.', '.browser.', '.slow.', '.process.']

/** Begins with the files that take longest, so that no worker is left alone with one of them at the end. */
export class LongTestsFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const found = longest.findIndex((suffix) => moduleId.includes(suffix))
      return found === -1 ? longest.length : found
    }
    return (await super.sort(files)).toSorted((one, other) => rank(one) - rank(other))
  }
}
