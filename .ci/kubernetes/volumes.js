// Makes a folder for each claim of the storage class `local`, and removes it with the claim.
// `node volumes.js <API server> <token> <directory> <node>`; the certificate is named by NODE_EXTRA_CA_CERTS.
import { chmod, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'

const [server, token, directory, node] = process.argv.slice(2)

async function call(method, path, body) {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const signal = AbortSignal.timeout(10_000)
  const response = await fetch(`${server}/api/v1${path}`, {
    method,
    headers,
    body: JSON.stringify(body),
    signal,
  })
  if (!response.ok && response.status !== 409 && response.status !== 404)
    throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
  return await response.json()
}

async function provision({ metadata, spec }) {
  const path = join(directory, metadata.uid)
  await mkdir(path, { recursive: true })
  // The user of a Pod owns nothing outside of it.
  await chmod(path, 0o777)
  await call('POST', '/persistentvolumes', {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name: `local-${metadata.uid}` },
    spec: {
      capacity: spec.resources.requests,
      accessModes: spec.accessModes,
      storageClassName: 'local',
      persistentVolumeReclaimPolicy: 'Retain',
      claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', ...metadata },
      local: { path },
      nodeAffinity: {
        required: {
          nodeSelectorTerms: [
            { matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: [node] }] },
          ],
        },
      },
    },
  })
}

async function round() {
  const [claims, volumes] = await Promise.all([
    call('GET', '/persistentvolumeclaims'),
    call('GET', '/persistentvolumes'),
  ])
  for (const { metadata, spec, status } of claims.items) {
    if (spec.storageClassName !== 'local' || status.phase !== 'Pending') continue
    const { name, namespace, uid } = metadata
    await provision({ metadata: { name, namespace, uid }, spec })
  }
  for (const { metadata, spec, status } of volumes.items) {
    if (status.phase !== 'Released') continue
    await rm(spec.local.path, { recursive: true, force: true })
    await call('DELETE', `/persistentvolumes/${metadata.name}`)
  }
}

for (;;) {
  await round().catch((error) => console.error(String(error)))
  await setTimeout(250)
}
