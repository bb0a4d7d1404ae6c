export { definedMembers } from './defined-members.ts'
export { asRecord, isRecord, parseJson, parseJsonObject } from './json.ts'
export { mergePatch, restoreRedacted } from './merge-patch.ts'
export { ownMember, renameMember, withoutMember } from './own-member.ts'
