export {
  createSigningKey,
  isPublicKeyText,
  LogSigner,
  publicKeyText,
  type SigningKey,
  VerificationError,
  type VerifiedLog,
  verifyLog,
} from './signed-log.ts'
