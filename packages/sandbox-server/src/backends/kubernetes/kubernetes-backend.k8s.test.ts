import { test } from 'vitest'
import { backendContract } from '../backend.contract.ts'
import { copyFilesContract } from '../copy-files.contract.ts'
import { openKubernetes, skipText, testCluster } from './testing/test-cluster.ts'

const cluster = testCluster()
if (cluster === undefined) test.skip(`kubernetes: ${skipText}`, () => {})
else {
  backendContract('kubernetes', () => openKubernetes(cluster))
  copyFilesContract('kubernetes', () => openKubernetes(cluster))
}
