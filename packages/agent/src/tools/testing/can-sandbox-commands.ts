import { execFileSync } from 'node:child_process'

/** Whether bubblewrap works on this host. */
export function canSandboxCommands(): boolean {
  const args = ['--unshare-pid', '--unshare-net', '--ro-bind', '/', '/', '--dev', '/dev', '--proc', '/proc']
  try {
    execFileSync('bwrap', [...args, '/bin/true'], { stdio: 'ignore', timeout: 60_000 })
    return true
  } catch {
    return false
  }
}
