import { budgetContract } from '../../control-plane/budgets.contract.ts'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { openControlPlaneStore } from './control-plane-store.ts'

budgetContract(async () => {
  const directory = temporaryDirectory()
  const store = await openControlPlaneStore({ directory: directory.path })
  return {
    stores: [store],
    async [Symbol.asyncDispose]() {
      await store[Symbol.asyncDispose]()
      directory[Symbol.dispose]()
    },
  }
})
