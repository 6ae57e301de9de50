"""What the machine has too little of, or leaves idle."""
