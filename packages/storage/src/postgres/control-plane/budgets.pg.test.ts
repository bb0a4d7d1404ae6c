import { vi } from 'vitest'
import { budgetContract } from '../../control-plane/budgets.contract.ts'
import { createTestSchema, describePostgres } from '../testing/test-database.ts'
import { openPostgresControlPlaneStore } from './control-plane-store.ts'

vi.setConfig({ testTimeout: 60_000 })

describePostgres('budgets of two servers on one database', () => {
  budgetContract(async () => {
    const schema = await createTestSchema()
    const open = () => openPostgresControlPlaneStore({ url: schema.url })
    const [one, other] = [await open(), await open()]
    return {
      stores: [one, other],
      async [Symbol.asyncDispose]() {
        for (const store of [one, other]) await store[Symbol.asyncDispose]()
        await schema[Symbol.asyncDispose]()
      },
    }
  })
})
