/**
 * System calls that no program in a sandbox needs, with their numbers on x86-64 and arm64: those that load
 * code into
 * the kernel or reach parts of it in which a user without rights found most of the errors.
 */
const deniedCalls: Readonly<Record<string, readonly [x64: number | null, arm64: number | null]>> = {
  acct: [163, 89],
  add_key: [248, 217],
  bpf: [321, 280],
  delete_module: [176, 106],
  finit_module: [313, 273],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fsopen: [430, 430],
  fspick: [433, 433],
  init_module: [175, 105],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  io_uring_setup: [425, 425],
  ioperm: [173, null],
  iopl: [172, null],
  kexec_file_load: [320, 294],
  kexec_load: [246, 104],
  keyctl: [250, 219],
  lookup_dcookie: [212, 18],
  mount: [165, 40],
  mount_setattr: [442, 442],
  move_mount: [429, 429],
  open_by_handle_at: [304, 265],
  open_tree: [428, 428],
  perf_event_open: [298, 241],
  pivot_root: [155, 41],
  quotactl: [179, 60],
  quotactl_fd: [443, 443],
  reboot: [169, 142],
  request_key: [249, 218],
  setns: [308, 268],
  swapoff: [168, 225],
  swapon: [167, 224],
  umount2: [166, 39],
  userfaultfd: [323, 282],
}

/** AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64. */
const auditArchitectures: Readonly<Record<string, number>> = { x64: 0xc000003e, arm64: 0xc00000b7 }

const load = 0x20
const jumpIfEqual = 0x15
const jumpIfAtLeast = 0x35
const answer = 0x06
const allow = 0x7fff0000
/** SECCOMP_RET_ERRNO with EPERM. */
const deny = 0x00050001
const numberOffset = 0
const architectureOffset = 4
/** From here on numbers are of the x32 interface, which has the same calls again. */
const x32 = 0x40000000

/**
 * The program for `bwrap --seccomp` (classic BPF): denied calls fail with EPERM, and so does every call of
 * another
 * architecture's interface, such as that of 32-bit programs. Undefined for other processors.
 */
export function seccompFilter(architecture: string = process.arch): Buffer | undefined {
  const audit = auditArchitectures[architecture]
  if (audit === undefined) return undefined
  const numbers = Object.values(deniedCalls).flatMap(
    ([x64, arm64]) => (architecture === 'x64' ? x64 : arm64) ?? [],
  )
  // Jumps skip that many of the following instructions; the last one denies.
  const instructions: (readonly [code: number, ifTrue: number, ifFalse: number, value: number])[] = [
    [load, 0, 0, architectureOffset],
    [jumpIfEqual, 0, numbers.length + 3, audit],
    [load, 0, 0, numberOffset],
    [jumpIfAtLeast, numbers.length + 1, 0, x32],
    ...numbers.map((each, index) => [jumpIfEqual, numbers.length - index, 0, each] as const),
    [answer, 0, 0, allow],
    [answer, 0, 0, deny],
  ]
  const program = Buffer.alloc(instructions.length * 8)
  for (const [index, [code, ifTrue, ifFalse, value]] of instructions.entries()) {
    program.writeUInt16LE(code, index * 8)
    program.writeUInt8(ifTrue, index * 8 + 2)
    program.writeUInt8(ifFalse, index * 8 + 3)
    program.writeUInt32LE(value, index * 8 + 4)
  }
  return program
}
