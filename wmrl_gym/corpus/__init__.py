"""Whatever writes scripts: the generator, mutations, reference scripts, agents as authors; and the files they fill."""
