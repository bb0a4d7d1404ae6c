import { firstChars } from '@slipway/shared/text'
import { unknownText } from './words.ts'

/** System directories: a change below them changes the machine. */
const systemPath = /^\/(?:bin|boot|dev|etc|lib|lib32|lib64|libx32|proc|sbin|sys|usr|System|Library)(?:\/|$)/
/** Parts of them that belong to users. */
const userPath =
  /^\/(?:usr\/(?:local|src)\/.|proc\/self\/fd|dev\/(?:null|zero|full|random|urandom|std(?:in|out|err)|tty|fd|shm|pts|tcp|udp)(?:\/|$))/
/** Directories that must not be deleted as a whole. */
const wholeDirectory =
  /^(?:\/|~[\w-]*|\.|\.\.|\*|\/(?:home|Users)\/[^/]+|\/(?:home|opt|root|run|srv|var|Users|Applications|mnt|media)|(?:\.\.\/)+\.\.)$/
/** Settings of programs in a home directory, which shells and others run or read at their next start. */
const homeSettings =
  /^\/(?:root|(?:home|Users)\/[^/]+)\/\.(?!slipway\/worktrees\/|local\/share\/slipway-servers\/[^/]+\/worktrees\/)[^/]/
const diskDevice =
  /^\/dev\/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|rdisk|mapper\/|md\d|dm-|loop\d|mem$|kmem$|port$|ram\d)/
const secretPath =
  /(?:^|\/)(?:\.ssh(?:$|\/(?!known_hosts|config$|[^/]*\.pub$))|\.(?:aws|azure|gnupg)(?:$|\/)|\.kube\/config|\.docker\/config\.json|\.config\/(?:gcloud|gh)\/|\.netrc|\.pgpass|\.git-credentials|\.npmrc$|\.pypirc|\.vault-token|\.env(?:\.(?!example|sample|template)[\w.-]+)?$|id_(?:rsa|dsa|ecdsa|ed25519)$|[^/]+\.(?:pem|key)$)|^\/etc\/(?:g?shadow|sudoers|ssl\/private)|^\/proc\/[^/]+\/environ$/

/**
 * The agent server's data directory (but not the worktrees in it), its key, and what `/proc` shows of other
 * processes, also by file patterns.
 */
const serverData =
  /(?:^|[/@=:,])(?:(?:\.slipway(?:-sandboxes)?|slipway-servers\/[^/]+|\.local\/share\/slipway)(?:\/(?!worktrees\/[^/](?!.*\.\.))|$)|\.config\/slipway(?:\/|$)|slipway-servers$|(?:secret|session)\.key(?:$|[,:])|(?:ses(?:s|si|sio|sion|sion\.k?e?y?)?|sec(?:r|re|ret|ret\.k?e?y?)?)[*?[](?:[^/]*[*?\])])?(?:(?:(?:(?:\w*\.)?k)?e)?y)?(?:$|[/,:])|\.s(?:l(?:i\w*)?)?[*?[]|[*?]\w*(?:ret|ion)\.key$)|(?:^|[@=:,])\/proc\/.*(?:\/(?:environ|mem|root|cwd|fd)(?:\/|$)|[*?[])/
/** Longer paths cannot be opened. */
const maxPath = 4096

/** Removes double slashes, `/./` and a trailing slash. */
function normalizePath(path: string): string {
  const collapsed = path.replace(/\/{2,}/g, '/').replace(/(?:\/\.(?=\/|$))+/g, '')
  return collapsed === '' ? '/' : collapsed.replace(/(?<=.)\/$/, '')
}

/** Resolves `..` in an absolute path. */
function resolveDots(path: string): string {
  if (!path.startsWith('/')) return path
  const parts: string[] = []
  for (const part of path.split('/')) part === '..' ? parts.pop() : parts.push(part)
  return parts.join('/') || '/'
}

/**
 * Whether deleting it recursively is catastrophic: the root, a home or system directory, the current
 * directory.
 */
export function isCatastrophicTarget(path: string): boolean {
  const resolvedPath = resolveDots(normalizePath(path))
  const parent = normalizePath(
    resolvedPath.replace(/\/(?:\*|\.\[!\.\]\*|\.\*|\{,\.\}\*)$/, '/').replace(/^\.\/$/, '.'),
  )
  return wholeDirectory.test(resolvedPath) || wholeDirectory.test(parent) || isSystemPath(parent)
}

/** A directory with files of everything that a user does: the root, a home directory, the directory above. */
export function isBroad(path: string): boolean {
  const resolvedPath = resolveDots(normalizePath(path))
  return !/^[.*]$/.test(resolvedPath) && wholeDirectory.test(resolvedPath)
}

/** A path below an unknown directory name: with an empty name, this is the root. */
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

export function isServerData(path: string): boolean {
  const resolvedPath = resolveDots(normalizePath(firstChars(path, maxPath)))
  return serverData.test(resolvedPath) && !userPath.test(resolvedPath)
}

/** A hidden file or folder of a home directory. */
export function isHomeSettings(path: string): boolean {
  return /^~[^/]*\/+\.[^./]/.test(path) || homeSettings.test(resolveDots(normalizePath(path)))
}

/** Whether the path alone shows that it is outside of the current directory: a home directory, or above. */
export function isOutsideDirectory(path: string): boolean {
  return (
    /^(?:~|\.\.(?:\/|$))/.test(path) ||
    homeSettings.test(resolveDots(normalizePath(path))) ||
    isSystemPath(path)
  )
}
