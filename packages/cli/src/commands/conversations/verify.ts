import { Problem } from '@slipway/protocol/client'
import { isPublicKeyText, VerificationError, verifyLog } from '@slipway/shared/signed-log'
import { errorText } from '@slipway/shared/text'
import { sanitizeLine } from '../../output/sanitize.ts'
import { printResult } from '../../output/terminal.ts'
import { gunzipIfNeeded, openSource } from '../../parsing/source-file.ts'

/** Unchanged, but of an unknown signer. */
const unknownSignerCode = 4

/** Checks a verifiable export without a server. A Problem for one that is refused. */
export async function verifyCommand(
  { isJson, outcome }: { readonly isJson: boolean; readonly outcome: { code: number } },
  file: string,
  key: string | undefined,
): Promise<void> {
  if (key !== undefined && !isPublicKeyText(key))
    throw new Problem('bad_request', 'The key is no Ed25519 public key: 44 characters of base64.')
  const source = await openSource(file)
  try {
    const { isSignerKnown, ...log } = await verifyLog(gunzipIfNeeded(source.chunks), key)
    const events = `${log.count} events of conversation ${sanitizeLine(log.conversation_id)}`
    const text = isSignerKnown
      ? `Verified: ${events}, signed by ${log.public_key}`
      : `Unchanged, signer unknown: ${events}. Name the public key of the server with --key.`
    const result = isSignerKnown ? 'verified' : 'unchanged, signer unknown'
    if (!isSignerKnown) outcome.code = unknownSignerCode
    await printResult(isJson, { result, ...log }, text)
  } catch (error) {
    if (error instanceof VerificationError) throw new Problem('invalid', `Refused: ${error.message}`)
    throw error instanceof Problem
      ? error
      : new Problem('bad_request', `Cannot read ${file}: ${errorText(error)}`)
  } finally {
    source.close()
  }
}
