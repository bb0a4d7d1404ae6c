export { type Libc, loadLibc, type PeerCredentials } from './libc.ts'
