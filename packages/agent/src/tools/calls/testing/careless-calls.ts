import type { MalformedCall } from './malformed-call.ts'

/** Calls that are written carelessly, by family. */
export const carelessCalls: Readonly<Record<string, readonly MalformedCall[]>> = {
  'harmless members': [
    ['editor', 'terminal', { command: 'echo said', description: 'Says it' }, 'say'],
    ['editor', 'terminal', { command: 'echo said', explanation: 'So.', run_in_background: false }, 'say'],
    ['editor', 'terminal', { command: 'echo said', cwd: 'src' }, 'say in src'],
    ['editor', 'terminal', { command: 'echo said', working_directory: '$W/src' }, 'say in src'],
    ['editor', 'terminal', { command: 'echo said', workdir: '.', is_background: false }, 'say'],
    ['editor', 'file_editor', { command: 'view', path: 'src/a.ts', explanation: 'To see it.' }, 'view'],
    [
      'editor',
      'file_editor',
      { command: 'view', path: 'src/a.ts', view_range: null, file_text: null, old_str: null },
      'view',
    ],
    [
      'editor',
      'file_editor',
      {
        command: 'str_replace',
        path: 'src/a.ts',
        old_str: 'const two = 2',
        new_str: 'const two = 22',
        description: '22',
      },
      'edit',
    ],
    ['editor', 'grep', { pattern: 'two = 2', include: null, reason: 'To find it.' }, 'grep'],
    ['editor', 'glob', { pattern: '**/*.ts', description: 'All.' }, 'glob'],
    ['editor', 'finish', { message: 'Done.', explanation: 'It is.' }, 'finish'],
    [
      'single',
      'edit',
      {
        file_path: 'src/a.ts',
        old_string: 'const two = 2',
        new_string: 'const two = 22',
        explanation: '22',
        expected_replacements: null,
      },
      'edit',
    ],
    [
      'single',
      'write_file',
      { file_path: 'd/new.txt', content: 'new\n', description: 'A new file.' },
      'create',
    ],
    [
      'single',
      'read_file',
      { file_path: 'src/a.ts', offset: null, limit: null, rationale: 'To see it.' },
      'view',
    ],
    ['single', 'list_directory', { dir_path: '.', explanation: 'To see it.' }, 'list'],
    ['patch', 'apply_patch', { patch: '$P', explanation: 'To change it.' }, 'patch'],
  ],
  'relative paths and other names of members': [
    ['editor', 'file_editor', { command: 'view', path: './src/a.ts' }, 'view'],
    ['editor', 'file_editor', { command: 'view', path: 'src/../src/a.ts' }, 'view'],
    ['editor', 'file_editor', { command: 'View', filename: 'src/a.ts' }, 'view'],
    ['editor', 'file_editor', { command: 'create', path: 'd/new.txt', content: 'new\n' }, 'create'],
    [
      'editor',
      'file_editor',
      { command: 'replace', path: 'src/a.ts', oldText: 'const two = 2', newText: 'const two = 22' },
      'edit',
    ],
    ['editor', 'terminal', { cmd: 'echo said' }, 'say'],
    ['editor', 'terminal', { script: 'echo said' }, 'say'],
    ['editor', 'terminal', { command: ['echo said'] }, 'say'],
    ['editor', 'grep', { query: 'two = 2', glob: '*.ts' }, 'grep'],
    ['editor', 'task_tracker', { command: 'plan', tasks: [{ name: 'one', status: 'doing' }] }, 'plan'],
    [
      'editor',
      'task_tracker',
      { command: 'plan', task_list: [{ title: 'one', status: 'In Progress' }] },
      'plan',
    ],
    ['editor', 'finish', { answer: 'Done.' }, 'finish'],
    ['single', 'edit', { path: './src/a.ts', old_str: 'const two = 2', new_str: 'const two = 22' }, 'edit'],
    ['single', 'edit', { file: 'src/a.ts', search: 'const two = 2', replace: 'const two = 22' }, 'edit'],
    ['single', 'write_file', { path: 'd/new.txt', text: 'new\n' }, 'create'],
    ['single', 'list_directory', { directory: '.' }, 'list'],
    ['patch', 'apply_patch', { diff: '$P' }, 'patch'],
  ],
  'durations and numbers': [
    ['editor', 'terminal', { command: 'echo said', timeout: '30' }, 'say'],
    ['editor', 'terminal', { command: 'echo said', timeout: '30s' }, 'say'],
    ['editor', 'terminal', { command: 'echo said', timeout: '2 minutes' }, 'say'],
    ['editor', 'terminal', { command: 'echo said', timeout: '500ms' }, 'say'],
    ['editor', 'terminal', { command: 'echo said', timeout: '1m' }, 'say'],
    ['editor', 'terminal', { command: 'echo said', timeout: '1.5' }, 'say'],
    ['editor', 'terminal', { command: 'echo said', timeout: ' 10 sec' }, 'say'],
    ['editor', 'terminal', { command: 'echo said', timeout_ms: 30000 }, 'say'],
    ['editor', 'terminal', { command: 'echo said', timeoutMs: '30000' }, 'say'],
    ['editor', 'file_editor', { command: 'view', path: 'src/a.ts', view_range: '[2, 2]' }, 'view part'],
    ['editor', 'file_editor', { command: 'view', path: 'src/a.ts', view_range: ['2', '2'] }, 'view part'],
    [
      'editor',
      'file_editor',
      { command: 'insert', path: 'src/a.ts', insert_line: '1', new_str: 'const half = 0.5' },
      'insert',
    ],
    [
      'editor',
      'file_editor',
      { command: 'str_replace', path: 'src/a.ts', old_str: 'const', new_str: 'let', replace_all: 'true' },
      'edit all',
    ],
    ['editor', 'terminal', { command: 'echo said', is_input: 'false', reset: 'False' }, 'say'],
    [
      'single',
      'edit',
      {
        file_path: 'src/a.ts',
        old_string: 'const two = 2',
        new_string: 'const two = 22',
        expected_replacements: '1',
      },
      'edit',
    ],
    ['single', 'read_file', { file_path: 'src/a.ts', offset: '1', limit: '1' }, 'view part'],
    ['single', 'list_directory', { dir_path: '.', recursive: 'false' }, 'list'],
  ],
  'ends that are missing or too many': [
    ['editor', 'terminal', '{"command": "echo said"', 'say'],
    ['editor', 'terminal', '{"command": "echo said"}}', 'say'],
    ['editor', 'terminal', '{"command": "echo said"}]}', 'say'],
    ['editor', 'terminal', '{"command": "echo said"}\n}', 'say'],
    [
      'editor',
      'file_editor',
      '{"command": "str_replace", "path": "src/a.ts", "old_str": "const two = 2", "new_str": "const two = 22"',
      'edit',
    ],
    [
      'editor',
      'file_editor',
      '{"command": "str_replace", "path": "src/a.ts", "old_str": "const two = 2", "new_str": "const two = 22"}}}',
      'edit',
    ],
    [
      'editor',
      'task_tracker',
      '{"command": "plan", "task_list": [{"title": "one", "status": "in_progress"}]',
      'plan',
    ],
    [
      'editor',
      'task_tracker',
      '{"command": "plan", "task_list": [{"title": "one", "status": "in_progress"}',
      'plan',
    ],
    [
      'editor',
      'task_tracker',
      '{"command": "plan", "task_list": [{"title": "one", "status": "in_progress"',
      'plan',
    ],
    [
      'editor',
      'task_tracker',
      '{"command": "plan", "task_list": [{"title": "one", "status": "in_progress"}]}}',
      'plan',
    ],
    [
      'single',
      'edit',
      '{"file_path": "src/a.ts", "old_string": "const two = 2", "new_string": "const two = 22"',
      'edit',
    ],
    ['single', 'write_file', '{"file_path": "d/new.txt", "content": "new\\n"}}', 'create'],
  ],
  'texts that are nearly JSON': [
    ['editor', 'terminal', "{'command': 'echo said', 'is_input': False, 'timeout': None}", 'say'],
    ['editor', 'terminal', '{"command": "echo said",}', 'say'],
    ['editor', 'terminal', '{command: "echo said"}', 'say'],
    ['editor', 'terminal', '```json\n{"command": "echo said"}\n```', 'say'],
    ['editor', 'terminal', '"{\\"command\\": \\"echo said\\"}"', 'say'],
    ['editor', 'terminal', '[{"command": "echo said"}]', 'say'],
    ['editor', 'terminal', '{"command": "echo said"}{"command": "echo said"}', 'say'],
    ['editor', 'terminal', '{}{"command": "echo said"}', 'say'],
    ['editor', 'terminal', '{"arguments": {"command": "echo said"}}', 'say'],
    ['editor', 'terminal', '{"parameters": {"cmd": "echo said"}}', 'say'],
    ['editor', 'file_editor', '{"command": "create", "path": "d/new.txt", "file_text": "new\n"}', 'create'],
    [
      'editor',
      'file_editor',
      "{'command': 'str_replace', 'path': 'src/a.ts', 'old_str': 'const two = 2', 'new_str': 'const two = 22'}",
      'edit',
    ],
    [
      'editor',
      'file_editor',
      '"{\\"command\\": \\"str_replace\\", \\"path\\": \\"src/a.ts\\", \\"old_str\\": \\"const two = 2\\", \\"new_str\\": \\"const two = 22\\"}"',
      'edit',
    ],
    [
      'editor',
      'task_tracker',
      '{"command": "plan", "task_list": "[{\\"title\\": \\"one\\", \\"status\\": \\"in_progress\\"}]"}',
      'plan',
    ],
    [
      'editor',
      'task_tracker',
      "{'command': 'plan', 'task_list': [{'title': 'one', 'status': 'in_progress'}]}",
      'plan',
    ],
    [
      'single',
      'edit',
      '```\n{"file_path": "src/a.ts", "old_string": "const two = 2", "new_string": "const two = 22"}\n```',
      'edit',
    ],
    ['single', 'read_file', '"{\\"file_path\\": \\"src/a.ts\\"}"', 'view'],
  ],
  'patches in other forms': [
    ['patch', 'apply_patch', { patch: '```diff\n$P\n```' }, 'patch'],
    ['patch', 'apply_patch', { patch: '```\n$P\n```\n' }, 'patch'],
    ['patch', 'apply_patch', { patch: "<<'EOF'\n$P\nEOF" }, 'patch'],
    ['patch', 'apply_patch', { patch: 'apply_patch <<EOF\n$P\nEOF' }, 'patch'],
    [
      'patch',
      'apply_patch',
      {
        patch:
          '--- a/src/a.ts\n+++ b/src/a.ts\n@@ -1,2 +1,2 @@\n const one = 1\n-const two = 2\n+const two = 22\n',
      },
      'patch',
    ],
    [
      'patch',
      'apply_patch',
      {
        patch:
          '--- a/src/a.ts\n+++ b/src/a.ts\n@@ -1,2 +1,2 @@\n const one = 1\n-const two = 2\n+const two = 22',
      },
      'patch',
    ],
    [
      'patch',
      'apply_patch',
      {
        patch:
          '```diff\n--- a/src/a.ts\n+++ b/src/a.ts\n@@ -1,2 +1,2 @@\n const one = 1\n-const two = 2\n+const two = 22\n```',
      },
      'patch',
    ],
    [
      'patch',
      'apply_patch',
      {
        patch:
          'diff --git a/src/a.ts b/src/a.ts\nindex 1..2 100644\n--- a/src/a.ts\n+++ b/src/a.ts\n@@ -1,2 +1,2 @@\n const one = 1\n-const two = 2\n+const two = 22\n',
      },
      'patch',
    ],
    [
      'patch',
      'apply_patch',
      {
        patch:
          '--- src/a.ts\n+++ src/a.ts\n@@ -1,2 +1,2 @@\n const one = 1\n-const two = 2\n+const two = 22\n',
      },
      'patch',
    ],
    [
      'patch',
      'apply_patch',
      {
        patch:
          '--- a/src/a.ts\n+++ b/src/a.ts\n@@ -1,9 +1,9 @@\n const one = 1\n-const two = 2\n+const two = 22\n',
      },
      'patch',
    ],
    [
      'patch',
      'apply_patch',
      {
        patch:
          '--- a/src/a.ts\r\n+++ b/src/a.ts\r\n@@ -1,2 +1,2 @@\r\n const one = 1\r\n-const two = 2\r\n+const two = 22\r\n',
      },
      'patch',
    ],
    [
      'patch',
      'apply_patch',
      {
        patch:
          'diff --git a/src/a.ts b/src/b.ts\nsimilarity index 100%\nrename from src/a.ts\nrename to src/b.ts\n',
      },
      'rename',
    ],
    [
      'patch',
      'apply_patch',
      {
        patch:
          '*** Begin Patch\n*** Update File: src/a.ts\n@@ -2,1 +2,1 @@\n-const two = 2\n+const two = 22\n*** End Patch',
      },
      'patch',
    ],
    [
      'patch',
      'apply_patch',
      {
        patch:
          '*** Begin Patch\n*** Update File: src/a.ts\n@@ ... @@\n-const two = 2\n+const two = 22\n*** End Patch',
      },
      'patch',
    ],
  ],
}
