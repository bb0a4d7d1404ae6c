import { conversationWorkspaceRoutes, workspaceRoutesCapability } from '@slipway/protocol'
import { defineModule } from '../../core/module.ts'
import { bashHandlers, bashModule } from '../../modules/bash/module.ts'
import { filesModule } from '../../modules/files/module.ts'
import { gitModule } from '../../modules/git/module.ts'
import { editorModule } from '../editor/module.ts'
import { conversationWorkspaceHandlers } from './handlers.ts'

/** Routes of files, git, the editor and commands once more, for one conversation each. */
export const routeMirrorsModule = defineModule({
  name: 'route-mirrors',
  routes: conversationWorkspaceRoutes,
  capabilities: [workspaceRoutesCapability],
  needs: [bashModule, filesModule, gitModule, editorModule],
  open({ infoReader }, use) {
    const bash = use(bashModule)
    return {
      handlers: conversationWorkspaceHandlers({
        infoReader,
        bash: (scope) => bashHandlers({ bash, scope }),
        files: use(filesModule),
        git: use(gitModule),
        editor: use(editorModule),
      }),
    }
  },
})
