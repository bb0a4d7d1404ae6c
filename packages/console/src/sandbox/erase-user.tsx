import type { Erasure } from '@slipway/protocol'
import { useState } from 'react'
import { useAction } from '../api/queries.ts'
import { sandboxServer } from '../api/session.ts'
import { saveFile } from '../list/actions.ts'
import { Dialog } from '../ui/dialog.tsx'

/** Erases all data of a user after a question, and shows the certificate, which can be kept as a file. */
export function EraseUser(props: {
  readonly user: { readonly id: string; readonly name: string | null }
  readonly onClose: () => void
}) {
  const { user, onClose } = props
  const [certificate, setCertificate] = useState<Erasure>()
  const erase = useAction(
    ['users'],
    () => sandboxServer.call('eraseUser', { params: { user_id: user.id } }),
    setCertificate,
  )
  const name = user.name ?? user.id
  if (certificate !== undefined)
    return (
      <Dialog title={`${name} is erased`} onClose={onClose}>
        <Certificate certificate={certificate} />
        <div className="buttons">
          <button type="button" className="primary" onClick={() => saveCertificate(certificate)}>
            Download the certificate
          </button>
          <button type="button" onClick={onClose}>
            Done
          </button>
        </div>
      </Dialog>
    )
  return (
    <Dialog title={`Erase all data of ${name}`} onClose={onClose}>
      <p>
        It deletes keys, sandboxes with their files, conversations, messages, secrets, profiles and settings.
        Lines of the audit stay under a pseudonym. It cannot be undone, and does not reach backups.
      </p>
      <div className="buttons">
        <button type="button" className="danger" disabled={erase.isPending} onClick={() => erase.mutate()}>
          {erase.isPending ? 'Erasing…' : 'Erase'}
        </button>
        <button type="button" onClick={onClose}>
          Cancel
        </button>
      </div>
    </Dialog>
  )
}

function saveCertificate(certificate: Erasure): void {
  const text = `${JSON.stringify(certificate, null, 2)}\n`
  saveFile(new Blob([text], { type: 'application/json' }), `erasure-${certificate.user}.json`)
}

function Certificate({ certificate }: { readonly certificate: Erasure }) {
  const { user, erased_at, counts, digest } = certificate
  const rows = [
    ['Pseudonym in the audit', user],
    ['Erased at', erased_at],
    ...Object.entries(counts).map(([kind, count]) => [kind.replaceAll('_', ' '), String(count)]),
    ['Digest', digest],
  ]
  return (
    <table aria-label="Certificate">
      <tbody>
        {rows.map(([label, value]) => (
          <tr key={label}>
            <th scope="row">{label}</th>
            <td className="mono wrap">{value}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
