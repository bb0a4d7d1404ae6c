import { unknownText } from './words.ts'

/** Directories of the system: whatever is changed below them changes the machine. */
const systemPath = /^\/(?:bin|boot|dev|etc|lib|lib32|lib64|libx32|proc|sbin|sys|usr|System|Library)(?:\/|$)/
/** Below these, parts are somebody's own. */
const userPath =
  /^\/(?:usr\/(?:local|src)\/.|proc\/self\/fd|dev\/(?:null|zero|full|random|urandom|std(?:in|out|err)|tty|fd|shm|pts|tcp|udp)(?:\/|$))/
/** Directories whose loss as a whole is a catastrophe. */
const wholeDirectory =
  /^(?:\/|~[\w-]*|\.|\.\.|\*|\/(?:home|Users)\/[^/]+|\/(?:home|opt|root|run|srv|var|Users|Applications|mnt|media)|(?:\.\.\/)+\.\.)$/
const diskDevice =
  /^\/dev\/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|rdisk|mapper\/|md\d|dm-|loop\d|mem$|kmem$|port$|ram\d)/
const secretPath =
  /(?:^|\/)(?:\.ssh(?:$|\/(?!known_hosts|config$|[^/]*\.pub$))|\.(?:aws|azure|gnupg)(?:$|\/)|\.kube\/config|\.docker\/config\.json|\.config\/(?:gcloud|gh)\/|\.netrc|\.pgpass|\.git-credentials|\.npmrc$|\.pypirc|\.vault-token|\.env(?:\.(?!example|sample|template)[\w.-]+)?$|id_(?:rsa|dsa|ecdsa|ed25519)$|[^/]+\.pem$)|^\/etc\/(?:g?shadow|sudoers|ssl\/private)|^\/proc\/[^/]+\/environ$/

/** A path that is as it is read: without double slashes, `/./` and a slash at the end. */
function normalizePath(path: string): string {
  const collapsed = path.replace(/\/{2,}/g, '/').replace(/(?:\/\.(?=\/|$))+/g, '')
  return collapsed === '' ? '/' : collapsed.replace(/(?<=.)\/$/, '')
}

/** Resolves `..` in a path that begins at the root. */
function resolveDots(path: string): string {
  if (!path.startsWith('/')) return path
  const parts: string[] = []
  for (const part of path.split('/')) part === '..' ? parts.pop() : parts.push(part)
  return parts.join('/') || '/'
}

/** Whether deleting it with all that is below is a catastrophe: the root, a home, a directory of the system, all that is here. */
export function isCatastrophicTarget(path: string): boolean {
  const resolvedPath = resolveDots(normalizePath(path))
  const parent = normalizePath(
    resolvedPath.replace(/\/(?:\*|\.\[!\.\]\*|\.\*|\{,\.\}\*)$/, '/').replace(/^\.\/$/, '.'),
  )
  return wholeDirectory.test(resolvedPath) || wholeDirectory.test(parent) || isSystemPath(parent)
}

/** A directory whose name is not known, and everything in it: with an empty name, this is the root. */
export function mayBeRoot(path: string): boolean {
  return path.startsWith(`${unknownText}/`) && /^\/+\*?$/.test(path.slice(1))
}

export function isSystemPath(path: string): boolean {
  const resolvedPath = resolveDots(normalizePath(path))
  return systemPath.test(resolvedPath) && !userPath.test(resolvedPath)
}

export function isDiskDevice(path: string): boolean {
  return diskDevice.test(normalizePath(path))
}

/** A file that commonly holds keys, passwords or tokens. */
export function isSecretFile(path: string): boolean {
  return secretPath.test(normalizePath(path))
}

/** Outside of the directory that the shell is in, as far as the path alone says so: a home, or above. */
export function isOutsideDirectory(path: string): boolean {
  return /^(?:~|\.\.(?:\/|$))/.test(path) || isSystemPath(path)
}
